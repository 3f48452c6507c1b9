package app

import (
	"context"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/gpu/pods"
)

// gpuFlags say what to read of the GPUs of this machine.
type gpuFlags struct {
	pods, processes bool
	socket          string
	simulated       bool // by the demo alone
}

func (f *gpuFlags) addFlags(c *kingpin.CmdClause) {
	c.Flag("gpu.processes", "Show the processes that use each GPU, with their names. In a container this needs the process ids of the host.").BoolVar(&f.processes)
	c.Flag("gpu.pod-resources", "Ask the kubelet which pod has which GPU.").BoolVar(&f.pods)
	c.Flag("gpu.pod-resources-socket", "Where the kubelet answers.").Default(pods.DefaultSocket).StringVar(&f.socket)
}

// hardware reads what is underneath: the GPUs of this machine, and which pods
// have them.
type hardware struct {
	gpus *gpu.Poller
	pods *pods.Watcher // nil where the kubelet is not asked
}

// newHardware prepares the reading of GPUs and puts it on the page.
// Where nothing else is looked at, there should be GPUs.
func newHardware(env environment, in senses, r prometheus.Registerer, probes *collector.Probes) *hardware {
	library := gpu.NVML("")
	if in.simulated {
		library = gpu.Simulated()
	}
	h := &hardware{gpus: gpu.New(library, gpu.Options{
		Required: !in.probe && !in.server, Processes: in.processes, Logger: env.logger,
	})}
	probes.WatchGPUs(h.gpus.Snapshot)
	r.MustRegister(collector.NewGPU(h.gpus.Snapshot))
	if in.pods {
		h.pods = pods.New(pods.Options{Socket: in.socket, Logger: env.logger})
		r.MustRegister(collector.NewPods(h.pods.Snapshot, h.gpus.Snapshot))
	}
	return h
}

// parts returns what has to run.
func (h *hardware) parts() []func(context.Context) error {
	parts := []func(context.Context) error{h.gpus.Run}
	if h.pods != nil {
		parts = append(parts, h.pods.Run)
	}
	return parts
}

// configuredBandwidth returns the memory bandwidth that the configuration gives
// to GPUs, by UUID.
func configuredBandwidth(cfg *config.Config) map[string]float64 {
	bandwidth := map[string]float64{}
	for _, e := range stanzas(cfg) {
		if e.Hardware == nil || e.Hardware.MemoryBandwidth == 0 {
			continue
		}
		for _, uuid := range e.Hardware.UUIDs {
			bandwidth[uuid] = float64(e.Hardware.MemoryBandwidth)
		}
	}
	return bandwidth
}

// checkHardware finds GPUs that are given two memory bandwidths, and products
// whose bandwidth nobody knows.
func checkHardware(cfg *config.Config) []*config.Error {
	mistakes := checkBandwidths(cfg)
	for _, e := range stanzas(cfg) {
		h := e.Hardware
		if h == nil || h.GPU == "" || h.MemoryBandwidth != 0 {
			continue
		}
		if _, ok := gpu.ProductBandwidth(h.GPU); !ok {
			mistakes = append(mistakes, e.mistake("hardware.gpu", "unknown product %.64q; docs/gpu.md lists the known ones; for another set memory_bandwidth", h.GPU))
		}
	}
	return mistakes
}

// checkBandwidths finds GPUs that two endpoints give different memory
// bandwidths.
func checkBandwidths(cfg *config.Config) []*config.Error {
	var mistakes []*config.Error
	first := map[string]stanza{} // that gave the GPU its bandwidth
	for _, e := range stanzas(cfg) {
		if e.Hardware == nil || e.Hardware.MemoryBandwidth == 0 {
			continue
		}
		for _, uuid := range e.Hardware.UUIDs {
			before, seen := first[uuid]
			if !seen {
				first[uuid] = e
				continue
			}
			if given := before.Hardware.MemoryBandwidth; given != e.Hardware.MemoryBandwidth {
				mistakes = append(mistakes, e.mistake("hardware.memory_bandwidth", "%s is that of %s, which has %s at %s", e.Hardware.MemoryBandwidth, uuid, given, before.path))
				break // one for a value
			}
		}
	}
	return mistakes
}

package app

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/gpu/pods"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// hardware reads what is underneath: the GPUs, by source, and which pods have them.
type hardware struct {
	sources []*gpu.Poller // in the order of gpu.Snapshots
	pages   *page.GPUPages
	pods    *pods.Watcher // nil where the kubelet is not asked
	copies  copies
}

// newHardware prepares the reading of GPUs and puts it on the page. hasPages: the configuration names pages of exporters.
func newHardware(env environment, in collectors, hasPages bool, r prometheus.Registerer, probes *collector.Probes) (*hardware, error) {
	h := &hardware{
		sources: newSources(env, in, !in.probe && !in.server && !hasPages), copies: copies{logger: env.logger},
		pages: page.NewGPUPages(env.logger, env.secrets.Secrets()),
	}
	r.MustRegister(collector.NewGPUPages(h.pages.Statuses))
	probes.WatchGPUs(h.snapshots)
	r.MustRegister(collector.NewGPU(h.snapshots))
	if in.pods {
		var err error
		if h.pods, err = pods.New(pods.Options{Socket: in.socket, Logger: env.logger, Secrets: env.secrets.Secrets()}); err != nil {
			return nil, usageError{err}
		}
		r.MustRegister(collector.NewPods(h.pods.Snapshot, h.snapshots))
	}
	return h, nil
}

// newSources returns what reads the GPUs of this machine. Where they are required, because
// nothing else is read, they are those of NVIDIA, unless the PCI bus lists AMD's alone.
func newSources(env environment, in collectors, required bool) []*gpu.Poller {
	o := gpu.Options{Required: required, Logger: env.logger, Secrets: env.secrets.Secrets()}
	if in.simulated {
		return []*gpu.Poller{gpu.New(gpu.Simulated(), o)}
	}
	hasAMD, hasNVIDIA := gpu.VendorsPresent(in.sysfs)
	ofAMD := o
	ofAMD.Required = required && !hasNVIDIA
	o.Required, o.Processes = required && (hasNVIDIA || !hasAMD), in.processes
	sources := []*gpu.Poller{gpu.New(gpu.NVML(""), o)}
	if hasAMD {
		sources = append(sources, gpu.NewAMD(in.sysfs, ofAMD))
	}
	return sources
}

func (h *hardware) snapshots() gpu.Snapshots {
	all := gpu.Snapshots(stats.Map(h.sources, (*gpu.Poller).Snapshot))
	all = append(all, h.pages.Snapshots()...) // last: a driver's readings of a GPU come first
	h.copies.log(all)
	return all
}

func (h *hardware) parts() []func(context.Context) error {
	parts := stats.Map(h.sources, func(p *gpu.Poller) func(context.Context) error { return p.Run })
	if h.pods != nil {
		parts = append(parts, h.pods.Run)
	}
	return parts
}

// copies logs which sources have GPUs that another one reads as well.
type copies struct {
	logger *slog.Logger

	mu     sync.Mutex
	latest gpu.Snapshots
	counts map[string]int // by source, as last logged
}

// log logs each source whose number of such GPUs changed. Between two polls it costs nothing.
func (c *copies) log(all gpu.Snapshots) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(c.latest, all) {
		return
	}
	c.latest = all
	uuids := map[string][]string{}
	for s, d := range all.Copies() {
		uuids[s.Source] = append(uuids[s.Source], d.UUID)
	}
	counts := make(map[string]int, len(uuids))
	for source, twice := range uuids {
		counts[source] = len(twice)
		if c.counts[source] != len(twice) {
			c.logger.Info("GPUs are in two sources; showing the readings of the other one", "source", source, "gpus", len(twice), "first", twice[0])
		}
	}
	c.counts = counts
}

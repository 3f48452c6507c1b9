package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/gpu/xid"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// GPUPage is the page of the GPUs: GET /api/v1/gpus. What it says besides Sources and
// GPUs is of the first source that has any GPU, or of the first one.
type GPUPage struct {
	// State is the state of the driver in words, and Error its message.
	State string `json:"state"`
	Error string `json:"error,omitempty"`
	// At is when the readings were made.
	At     float64 `json:"at,omitempty"`
	Driver string  `json:"driver,omitempty"`
	CUDA   string  `json:"cuda,omitempty"`
	// Simulated marks readings that no hardware made.
	Simulated bool `json:"simulated,omitempty"`
	// Sources are what GPUs are read from.
	Sources []*GPUSource `json:"sources,omitempty"`
	// GPUs are in the order of their sources and drivers, each before the MIG devices that it is split into.
	GPUs []*GPU `json:"gpus"`
}

// GPUSource is what one source of GPUs found.
type GPUSource struct {
	Source string `json:"source"`
	// State is in words, and Error the message.
	State  string  `json:"state"`
	Error  string  `json:"error,omitempty"`
	At     float64 `json:"at,omitempty"`
	Driver string  `json:"driver,omitempty"`
	// Found is how many GPUs it counts.
	Found int `json:"found"`
	// Reads are the readings of any of its GPUs, as the names of metrics without "inference_gpu_".
	Reads []string `json:"reads,omitempty"`
}

// GPU is one GPU, or one MIG device of it, with its readings in the units of their names.
type GPU struct {
	Vendor string `json:"vendor,omitempty"`
	// Host is the machine that it is in, if that is another one.
	Host  string `json:"host,omitempty"`
	Index int    `json:"gpu"`
	UUID  string `json:"uuid"`
	Name  string `json:"name,omitempty"`
	// Profile is that of a MIG device, as in 1g.10gb.
	Profile string `json:"profile,omitempty"`
	// Endpoints are those that it serves by the configuration (hardware.uuids), sorted.
	Endpoints []string `json:"endpoints,omitempty"`

	MemoryUsed        *float64 `json:"memory_used_bytes,omitempty"`
	MemoryTotal       *float64 `json:"memory_total_bytes,omitempty"`
	Utilization       *float64 `json:"utilization_ratio,omitempty"`
	BandwidthUse      *float64 `json:"memory_bandwidth_utilization_ratio,omitempty"`
	Bandwidth         *float64 `json:"memory_bandwidth_bytes_per_second,omitempty"`
	SMActive          *float64 `json:"sm_active_ratio,omitempty"`
	TensorActive      *float64 `json:"tensor_active_ratio,omitempty"`
	Power             *float64 `json:"power_watts,omitempty"`
	PowerLimit        *float64 `json:"power_limit_watts,omitempty"`
	Temperature       *float64 `json:"temperature_celsius,omitempty"`
	MemoryTemperature *float64 `json:"memory_temperature_celsius,omitempty"`

	// Throttle lists why clocks are not higher; idle is no such reason.
	Throttle []string `json:"throttle,omitempty"`
	// Problems are findings that ask for a look.
	Problems  []string      `json:"problems,omitempty"`
	Processes []*GPUProcess `json:"processes,omitempty"`
}

// GPUProcess is a process on a GPU.
type GPUProcess struct {
	PID           int      `json:"pid"`
	Name          string   `json:"name,omitempty"`
	Container     string   `json:"container,omitempty"`
	PodUID        string   `json:"pod_uid,omitempty"`
	MemoryUsed    *float64 `json:"memory_used_bytes,omitempty"`
	SMUtilization *float64 `json:"sm_utilization_ratio,omitempty"`
}

// gpuPage returns the page of the snapshots of all sources, at least one, without the endpoints.
func gpuPage(all gpu.Snapshots) *GPUPage {
	main := all[max(0, slices.IndexFunc(all, func(s *gpu.Snapshot) bool { return len(s.Devices) > 0 }))]
	source := newGPUSource(main)
	p := &GPUPage{
		State: source.State, Error: source.Error, At: source.At, Driver: source.Driver, CUDA: harmless(main.CUDA), GPUs: []*GPU{},
		Sources: stats.Map(all, newGPUSource), Simulated: slices.ContainsFunc(all, func(s *gpu.Snapshot) bool { return s.Simulated }),
	}
	for _, d := range all.Devices() {
		p.GPUs = append(p.GPUs, newGPU(d))
		for i := range d.MIG {
			m := &d.MIG[i]
			part := nameGPU(d, m.UUID)
			part.Profile = harmless(m.Profile)
			part.read(m.Readings)
			p.GPUs = append(p.GPUs, part)
		}
	}
	return p
}

func newGPUSource(s *gpu.Snapshot) *GPUSource {
	p := &GPUSource{
		Source: harmless(s.Source), State: stateTexts()[s.State], At: stats.UnixSeconds(s.At), Driver: harmless(s.Driver), Found: s.Count,
		Reads: s.Reads(),
	}
	if s.Err != nil && s.State != gpu.StateUp {
		p.Error = harmless(s.Err.Error())
	}
	return p
}

// GPUs returns the page of the snapshots of all sources, at least one, with the endpoints that the configuration places on each GPU.
func (b *Board) GPUs(all gpu.Snapshots) *GPUPage {
	on := map[string][]string{} // endpoints by name, by the UUID of a GPU
	for _, e := range b.all() {
		e.mu.Lock()
		if hardware := e.cfg.Hardware; hardware != nil {
			for _, uuid := range hardware.UUIDs {
				on[uuid] = append(on[uuid], e.name)
			}
		}
		e.mu.Unlock()
	}
	page := gpuPage(all)
	for _, g := range page.GPUs {
		g.Endpoints = on[g.UUID]
	}
	return page
}

func stateTexts() map[gpu.State]string {
	return map[gpu.State]string{
		gpu.StateStarting:      "no reading has ended yet",
		gpu.StateUp:            "up",
		gpu.StateNotBuilt:      "built without NVML",
		gpu.StateNoLibrary:     "no driver on this machine",
		gpu.StateNoDriver:      "the library of the driver is present, the driver is not",
		gpu.StateNoDevices:     "a driver without a GPU",
		gpu.StateDenied:        "no permission for any GPU",
		gpu.StateDriverChanged: "the driver was replaced while in use: start the exporter again",
		gpu.StateLost:          "every GPU is lost",
		gpu.StateStuck:         "the driver does not return",
		gpu.StateFailed:        "the reading failed",
	}
}

// nameGPU returns a GPU, or a part of it with a UUID of its own, without readings.
func nameGPU(d *gpu.DeviceSnapshot, uuid string) *GPU {
	return &GPU{Vendor: string(d.Vendor), Host: harmless(d.Host), Index: d.Index, UUID: harmless(uuid), Name: harmless(d.Name)}
}

func newGPU(d *gpu.DeviceSnapshot) *GPU {
	g := nameGPU(d, d.UUID)
	if !d.Up {
		g.problem("the GPU no longer answers")
	}
	g.read(d.Readings)
	for _, x := range d.XIDs {
		times := "once"
		if x.Count != 1 {
			times = fmt.Sprintf("%d times", x.Count)
		}
		text := fmt.Sprintf("XID %d: %s, last at %s", x.Number, times, x.Last.UTC().Format(time.RFC3339))
		if meaning := xid.Meaning(x.Number); meaning != "" {
			text += "; " + meaning
		}
		g.Problems = append(g.Problems, text)
	}
	for i := range d.Processes {
		p := &d.Processes[i]
		g.Processes = append(g.Processes, &GPUProcess{
			PID: p.PID, Name: harmless(p.Name), Container: harmless(p.Container), PodUID: harmless(p.PodUID),
			MemoryUsed: known(p.MemoryUsed), SMUtilization: known(p.SMUtilization),
		})
	}
	return g
}

func (g *GPU) read(readings []gpu.Reading) {
	values := map[gpu.Kind]**float64{
		gpu.MemoryUsed: &g.MemoryUsed, gpu.MemoryTotal: &g.MemoryTotal, gpu.Utilization: &g.Utilization,
		gpu.DRAMBandwidthUtilization: &g.BandwidthUse, gpu.MemoryBandwidth: &g.Bandwidth,
		gpu.SMActive: &g.SMActive, gpu.TensorActive: &g.TensorActive,
		gpu.Power: &g.Power, gpu.PowerLimit: &g.PowerLimit, gpu.Temperature: &g.Temperature,
	}
	for _, r := range readings {
		value, ok := values[r.Kind]
		switch {
		case r.Kind == gpu.Temperature && r.Label == "memory":
			g.MemoryTemperature = &r.Value
		case r.Kind == gpu.Temperature && r.Label == "junction":
		case ok:
			*value = &r.Value
		case r.Kind == gpu.ClockEventActive && r.Value == 1 && r.Label != "idle":
			g.Throttle = append(g.Throttle, r.Label)
		default:
			g.judge(r)
		}
	}
}

// judge adds the problems that a reading of the health of a GPU shows.
func (g *GPU) judge(r gpu.Reading) {
	switch {
	case r.Kind == gpu.ECCErrors && r.Label == "uncorrected" && r.Value > 0:
		g.problem("uncorrected memory errors since the driver was loaded: %.0f", r.Value)
	case r.Kind == gpu.RowRemapPending && r.Value == 1:
		g.problem("a row of the memory is to be replaced at the next reset")
	case r.Kind == gpu.RowRemapFailure && r.Value == 1:
		g.problem("a row of the memory could not be replaced: the GPU is due for exchange")
	case r.Kind == gpu.NVLinkErrors && r.Label == "recovery_failed" && r.Value > 0:
		g.problem("NVLinks that could not be recovered: %.0f", r.Value)
	case r.Kind == gpu.RecoveryAction && r.Value > 0:
		g.problem("the driver asks for %s", recovery(r.Value))
	case r.Kind == gpu.FabricHealthy && r.Value == 0:
		g.problem("the NVLink fabric has a fault")
	}
}

// recovery returns what the driver asks for, by the values of gpu.RecoveryAction.
func recovery(action float64) string {
	text := map[float64]string{
		1: "a reset of the GPU", 2: "a reboot", 3: "a drain of peer-to-peer traffic",
		4: "a drain and a reset of the GPU", 5: "a recovery of the IMEX domain", 6: "a reset of the PCIe bus", 7: "a reboot of the system",
	}[action]
	return cmp.Or(text, fmt.Sprintf("recovery action %.0f", action))
}

func (g *GPU) problem(format string, args ...any) {
	g.Problems = append(g.Problems, fmt.Sprintf(format, args...))
}

// known returns v, nil where it is negative, which is unknown.
func known(v float64) *float64 {
	if v < 0 {
		return nil
	}
	return &v
}

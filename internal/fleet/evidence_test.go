package fleet

import (
	"fmt"
	"slices"
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// A reload that changes an endpoint keeps what is known of the modules that stay, and
// nothing where it is another target.
func TestMemoryOutlastsAReload(t *testing.T) {
	l := newLab(t)
	url := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	probes := func(want int, succeeded bool, settings string) {
		t.Helper()
		l.mustApply(fmt.Sprintf("{name: e, url: %s%s, model: simulated-8b}", url, settings))
		m := l.members["e"].memory
		n := 0
		for _, r := range m.series {
			n += len(r.latest())
		}
		if n != want || m.well.IsZero() == succeeded {
			t.Errorf("with %q: %d probes are known, want %d; the latest success was at %s", settings, n, want, m.well)
		}
	}
	probes(0, false, "")
	l.probe()
	probes(1, true, "")
	probes(1, true, ", labels: {team: search}")
	probes(0, false, "/v1")
	l.probe()
	probes(0, true, "/v1, modules: [rag]")
}

// Of the processes on a card those like the largest are the server, and of the reasons
// for reduced clocks those count that are a fault.
func TestGPUsOfAnEndpoint(t *testing.T) {
	s := gpu.Snapshots{{Devices: []gpu.DeviceSnapshot{
		{
			UUID: "GPU-a", Up: true, Name: "H100",
			Readings: []gpu.Reading{
				{Kind: gpu.ClockEventActive, Label: "idle", Value: 1},
				{Kind: gpu.ClockEventActive, Label: "sw_power_cap", Value: 1},
				{Kind: gpu.ClockEventActive, Label: "hw_thermal", Value: 1},
				{Kind: gpu.ClockEventActive, Label: "hw_power_brake", Value: 0},
			},
			Processes: []gpu.ProcessReading{
				{PID: 1, Name: "vllm", MemoryUsed: 7e10, SMUtilization: 0.5},
				{PID: 2, Name: "vllm", MemoryUsed: 1e9, SMUtilization: 0.3},
				{PID: 3, Name: "train.py", MemoryUsed: 2e9, SMUtilization: 0.31},
				{PID: 4, Name: "dcgm", MemoryUsed: 1e8, SMUtilization: 0.01},
			},
		},
		{UUID: "GPU-b", Up: false},
		{UUID: "GPU-c", Up: true},
	}}}
	e := &config.Endpoint{Hardware: &config.Hardware{UUIDs: []string{"GPU-a", "GPU-b"}}}
	got := gpusOf(e, s)
	want := []explain.GPU{
		{UUID: "GPU-a", Name: "H100", Throttle: []string{"hw_thermal"}, Neighbours: []string{"train.py (pid 3, 31 % of the multiprocessors)"}},
		{UUID: "GPU-b", Lost: true},
	}
	if !slices.EqualFunc(got, want, func(a, b explain.GPU) bool {
		return a.UUID == b.UUID && a.Name == b.Name && a.Lost == b.Lost && slices.Equal(a.Throttle, b.Throttle) && slices.Equal(a.Neighbours, b.Neighbours)
	}) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := gpusOf(&config.Endpoint{}, s); got != nil {
		t.Errorf("of an endpoint without hardware: %+v", got)
	}
}

// Clocks that begin or cease to be reduced are changes; those that were so from the
// beginning, and of other cards, are none.
func TestClockChanges(t *testing.T) {
	m := &memory{endpoint: &config.Endpoint{Hardware: &config.Hardware{UUIDs: []string{"GPU-a", "GPU-b"}}}}
	reduced := func(reasons map[string]string) gpu.Snapshots {
		s := &gpu.Snapshot{}
		for _, uuid := range []string{"GPU-a", "GPU-b", "GPU-c"} {
			d := gpu.DeviceSnapshot{UUID: uuid, Up: true}
			if reason := reasons[uuid]; reason != "" {
				d.Readings = []gpu.Reading{{Kind: gpu.ClockEventActive, Label: reason, Value: 1}}
			}
			s.Devices = append(s.Devices, d)
		}
		return gpu.Snapshots{s}
	}
	for i, step := range []struct {
		s    gpu.Snapshots
		want []string
	}{
		{nil, nil},
		{reduced(map[string]string{"GPU-a": "hw_thermal"}), nil},
		{reduced(map[string]string{"GPU-a": "hw_thermal", "GPU-b": "idle", "GPU-c": "hw_thermal"}), nil},
		{reduced(map[string]string{"GPU-b": "hw_power_brake"}), []string{"clocks of GPU-a no longer reduced", "clocks of GPU-b reduced: hw_power_brake"}},
		{reduced(map[string]string{"GPU-b": "hw_slowdown"}), []string{"clocks of GPU-b reduced: hw_slowdown"}},
	} {
		if got := m.clockChanges(step.s); !slices.Equal(got, step.want) {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// Endpoints have their gateway in common by its name, and those without one the host.
func TestFactorOfAGateway(t *testing.T) {
	cfg := parse(t, "gateways: {router: {urls: [\"http://router:9090\"]}}\nendpoints: [{url: \"http://a:8000\", gateway: router}, {url: \"http://b:8000\"}]")
	for i, want := range []string{"router", "b:8000"} {
		if got := factorsOf(cfg.Endpoints[i]); got[0] != (explain.Factor{Kind: "gateway", Value: want}) {
			t.Errorf("got %+v, want the gateway %s", got, want)
		}
	}
}

package explain

import (
	"fmt"
	"slices"
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
)

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
	var got []string
	for _, d := range GPUsOf(e, s) {
		got = append(got, fmt.Sprint(d.UUID, d.Up, throttle(d), neighbours(d.Processes)))
	}
	want := []string{"GPU-atrue [hw_thermal] [train.py (pid 3, 31 % of the multiprocessors)]", "GPU-bfalse [] []"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := GPUsOf(&config.Endpoint{}, s); got != nil {
		t.Errorf("of an endpoint without hardware: %+v", got)
	}
}

// Clocks that begin or cease to be reduced are changes; those that were so from the
// beginning, and of other cards, are none.
func TestClockChanges(t *testing.T) {
	m := NewMemory(&config.Endpoint{Hardware: &config.Hardware{UUIDs: []string{"GPU-a", "GPU-b"}}})
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
		if got := m.ClockChanges(step.s); !slices.Equal(got, step.want) {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

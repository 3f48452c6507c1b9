package status

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/gpu"
)

// gpus returns the page of one source.
func gpus(s *gpu.Snapshot) *GPUPage { return gpuPage(gpu.Snapshots{s}) }

func TestGPUs(t *testing.T) {
	expectJSON(t, gpus(&gpu.Snapshot{Source: "nvml", State: gpu.StateStuck, Err: errors.New("no\nanswer")}),
		`{"state": "the driver does not return", "error": "no answer", "gpus": [], "sources": [
			{"source": "nvml", "state": "the driver does not return", "error": "no answer", "found": 0}]}`)
	expectJSON(t, gpus(&gpu.Snapshot{
		Source: "nvml", State: gpu.StateUp, At: epoch(), Driver: "570.1", CUDA: "12.8", Simulated: true, Count: 2,
		Devices: []gpu.DeviceSnapshot{{
			Vendor: gpu.NVIDIA, UUID: "GPU-1", Index: 0, Up: true, Name: "NVIDIA H100", Readings: []gpu.Reading{
				{Kind: gpu.MemoryUsed, Value: 70},
				{Kind: gpu.MemoryTotal, Value: 80},
				{Kind: gpu.Utilization, Value: 0.9},
				{Kind: gpu.DRAMBandwidthUtilization, Value: 0.6},
				{Kind: gpu.MemoryBandwidth, Label: "product", Value: 3.35e12},
				{Kind: gpu.SMActive, Value: 0},
				{Kind: gpu.TensorActive, Value: 0.3},
				{Kind: gpu.Power, Value: 500},
				{Kind: gpu.PowerLimit, Value: 700},
				{Kind: gpu.Temperature, Label: "gpu", Value: 60},
				{Kind: gpu.Temperature, Label: "memory", Value: 70},
				{Kind: gpu.ClockEventActive, Label: "idle", Value: 1},
				{Kind: gpu.ClockEventActive, Label: "sw_power_cap", Value: 1},
				{Kind: gpu.ClockEventActive, Label: "hw_thermal", Value: 0},
			},
			Processes: []gpu.ProcessReading{
				{PID: 7, Name: "vllm\x1b", Container: "c", PodUID: "p", MemoryUsed: 60, SMUtilization: 0.5},
				{PID: 8, MemoryUsed: -1, SMUtilization: -1},
			},
			MIG: []gpu.MIGSnapshot{{UUID: "MIG-1", Profile: "1g.10gb", Readings: []gpu.Reading{{Kind: gpu.MemoryUsed, Value: 0}}}},
		}, {UUID: "GPU-2", Index: 1}},
	}), `{"state": "up", "at": 1767323045, "driver": "570.1", "cuda": "12.8", "simulated": true, "sources": [
			{"source": "nvml", "state": "up", "at": 1767323045, "driver": "570.1", "found": 2, "reads": [
				"clock_event_active", "dram_bandwidth_utilization_ratio", "memory_bandwidth_bytes_per_second", "memory_total_bytes",
				"memory_used_bytes", "power_limit_watts", "power_watts", "sm_active_ratio", "temperature_celsius", "tensor_active_ratio",
				"utilization_ratio"]}], "gpus": [
		{"vendor": "nvidia", "gpu": 0, "uuid": "GPU-1", "name": "NVIDIA H100", "memory_used_bytes": 70, "memory_total_bytes": 80, "utilization_ratio": 0.9,
			"memory_bandwidth_utilization_ratio": 0.6, "memory_bandwidth_bytes_per_second": 3350000000000, "sm_active_ratio": 0,
			"tensor_active_ratio": 0.3, "power_watts": 500, "power_limit_watts": 700, "temperature_celsius": 60,
			"memory_temperature_celsius": 70, "throttle": ["sw_power_cap"], "processes": [
				{"pid": 7, "name": "vllm", "container": "c", "pod_uid": "p", "memory_used_bytes": 60, "sm_utilization_ratio": 0.5},
				{"pid": 8}]},
		{"vendor": "nvidia", "gpu": 0, "uuid": "MIG-1", "name": "NVIDIA H100", "profile": "1g.10gb", "memory_used_bytes": 0},
		{"gpu": 1, "uuid": "GPU-2", "problems": ["the GPU no longer answers"]}]}`)

	// The page as a whole is of the source that has GPUs.
	page := gpuPage(gpu.Snapshots{
		{Source: "nvml", State: gpu.StateNoLibrary, Err: errors.New("not found")},
		{Source: "amdgpu", State: gpu.StateUp, At: epoch(), Driver: "6.14", Count: 1, Devices: []gpu.DeviceSnapshot{
			{Vendor: gpu.AMD, Host: "n1", UUID: "GPU-3", Up: true},
		}},
	})
	expectJSON(t, page, `{"state": "up", "at": 1767323045, "driver": "6.14", "gpus": [{"vendor": "amd", "host": "n1", "gpu": 0, "uuid": "GPU-3"}], "sources": [
		{"source": "nvml", "state": "no driver on this machine", "error": "not found", "found": 0},
		{"source": "amdgpu", "state": "up", "at": 1767323045, "driver": "6.14", "found": 1}]}`)
}

// Each problem of a GPU is shown, and nothing of a healthy one.
func TestGPUProblems(t *testing.T) {
	bad := []gpu.Reading{
		{Kind: gpu.ECCErrors, Label: "corrected", Value: 5},
		{Kind: gpu.ECCErrors, Label: "uncorrected", Value: 2},
		{Kind: gpu.RowRemapPending, Value: 1},
		{Kind: gpu.RowRemapFailure, Value: 1},
		{Kind: gpu.NVLinkErrors, Label: "replay", Value: 9},
		{Kind: gpu.NVLinkErrors, Label: "recovery_failed", Value: 1},
		{Kind: gpu.RecoveryAction, Value: 2},
		{Kind: gpu.FabricHealthy, Value: 0},
	}
	xids := []gpu.XIDCount{{Number: 79, Count: 1, Last: epoch()}, {Number: 31, Count: 3, Last: epoch().Add(time.Second)}}
	page := func(d gpu.DeviceSnapshot) []string {
		d.Up = true
		return gpus(&gpu.Snapshot{State: gpu.StateUp, Devices: []gpu.DeviceSnapshot{d}}).GPUs[0].Problems
	}
	expectJSON(t, page(gpu.DeviceSnapshot{Readings: bad, XIDs: xids}), `[
		"uncorrected memory errors since the driver was loaded: 2",
		"a row of the memory is to be replaced at the next reset",
		"a row of the memory could not be replaced: the GPU is due for exchange",
		"NVLinks that could not be recovered: 1",
		"the driver asks for a reboot",
		"the NVLink fabric has a fault",
		"XID 79: once, last at 2026-01-02T03:04:05Z; the GPU fell off the bus",
		"XID 31: 3 times, last at 2026-01-02T03:04:06Z; mostly a fault of a program"]`)
	for action, want := range map[float64]string{
		1: "a reset of the GPU", 3: "a drain of peer-to-peer traffic", 4: "a drain and a reset of the GPU",
		5: "a recovery of the IMEX domain", 9: "recovery action 9",
	} {
		if got := page(gpu.DeviceSnapshot{Readings: []gpu.Reading{{Kind: gpu.RecoveryAction, Value: action}}}); got[0] != "the driver asks for "+want {
			t.Errorf("%v: %q", action, got)
		}
	}
	for i := range bad {
		bad[i].Value = 0
		if bad[i].Kind == gpu.FabricHealthy {
			bad[i].Value = 1
		}
	}
	if got := page(gpu.DeviceSnapshot{Readings: bad}); got != nil {
		t.Errorf("a GPU that is well: %q", got)
	}
}

// Every state has words of its own.
func TestGPUStates(t *testing.T) {
	seen := map[string]gpu.State{}
	for _, s := range []gpu.State{
		gpu.StateStarting, gpu.StateUp, gpu.StateNotBuilt, gpu.StateNoLibrary, gpu.StateNoDriver, gpu.StateNoDevices,
		gpu.StateDenied, gpu.StateDriverChanged, gpu.StateLost, gpu.StateStuck, gpu.StateFailed,
	} {
		words := gpus(&gpu.Snapshot{State: s}).State
		if other, ok := seen[words]; ok || words == "" {
			t.Errorf("%s is %q, as is %s", s, words, other)
		}
		seen[words] = s
	}
}

// The simulated GPUs have every reading that the page shows of a whole GPU, by
// the names that the poller gives them.
func TestSimulatedGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poller := gpu.New(gpu.Simulated(), gpu.Options{})
		poller.SetBandwidth(map[string]float64{"GPU-simulated-0": 3.35e12})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- poller.Run(ctx) }()
		time.Sleep(11 * time.Second)
		p := gpus(poller.Snapshot())
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if p.State != "up" || p.Driver == "" || p.CUDA == "" || p.At == 0 || len(p.GPUs) != 2 {
			t.Fatalf("%s", text(t, p))
		}
		g := p.GPUs[0]
		for name, v := range map[string]*float64{
			"memory used": g.MemoryUsed, "memory": g.MemoryTotal, "utilization": g.Utilization, "bandwidth use": g.BandwidthUse,
			"bandwidth": g.Bandwidth, "SM active": g.SMActive, "tensor active": g.TensorActive, "power": g.Power,
			"power limit": g.PowerLimit, "temperature": g.Temperature, "memory temperature": g.MemoryTemperature,
		} {
			if v == nil || *v <= 0 {
				t.Errorf("no %s", name)
			}
		}
	})
}

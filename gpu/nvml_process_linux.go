//go:build linux && cgo

package gpu

import (
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func (d *nvmlDevice) Processes() ([]Process, error) {
	found, r := d.handle.GetComputeRunningProcesses()
	if err := call("nvmlDeviceGetComputeRunningProcesses_v3").result(r); err != nil {
		return nil, err
	}
	processes := make([]Process, len(found))
	for i, p := range found {
		processes[i] = Process{PID: int(p.Pid), GPUInstance: -1}
		if p.UsedGpuMemory != math.MaxUint64 {
			processes[i].MemoryUsed, processes[i].MemoryKnown = p.UsedGpuMemory, true
		}
		if p.GpuInstanceId != math.MaxUint32 {
			processes[i].GPUInstance = int(p.GpuInstanceId)
		}
	}
	return processes, nil
}

func (d *nvmlDevice) ProcessUtilization(since uint64) ([]ProcessSample, error) {
	found, r := processUtilization(d.handle, since)
	if err := call("nvmlDeviceGetProcessUtilization").result(r); err != nil {
		return nil, err
	}
	samples := make([]ProcessSample, 0, len(found))
	for _, s := range found {
		// Drivers leave entries unfilled.
		if s.Pid == 0 || s.SmUtil > 100 {
			continue
		}
		samples = append(samples, ProcessSample{PID: int(s.Pid), Timestamp: s.TimeStamp, SM: int(s.SmUtil)})
	}
	return samples, nil
}

// processUtilization asks the binding, which panics if there are more samples
// at its second call than at its first; the next poll has them.
func processUtilization(handle nvml.Device, since uint64) (samples []nvml.ProcessUtilizationSample, r nvml.Return) {
	defer func() {
		if recover() != nil {
			samples, r = nil, nvml.ERROR_NO_DATA
		}
	}()
	samples, r = handle.GetProcessUtilization(since)
	if r == nvml.ERROR_INSUFFICIENT_SIZE { // its answer for none
		return nil, nvml.ERROR_NOT_FOUND
	}
	return samples, r
}

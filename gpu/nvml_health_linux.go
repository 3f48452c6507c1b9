//go:build linux && cgo

package gpu

import (
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// addHealth adds what says whether a GPU is to be repaired or replaced, and how near it is to being slowed down.
func addHealth(all map[string]nvmlQuestion) {
	all["SRAM ECC errors"] = func(d nvml.Device) ([]float64, error) {
		s, r := d.GetSramEccErrorStatus()
		return []float64{
			float64(s.VolatileCor), float64(s.VolatileUncParity), float64(s.VolatileUncSecDed),
			float64(s.AggregateCor), float64(s.AggregateUncParity), float64(s.AggregateUncSecDed),
			float64(s.AggregateUncBucketL2), float64(s.AggregateUncBucketSm), float64(s.AggregateUncBucketPcie),
			float64(s.AggregateUncBucketMcu), float64(s.AggregateUncBucketOther), flag(s.BThresholdExceeded != 0),
		}, call("nvmlDeviceGetSramEccErrorStatus").result(r)
	}
	all["repair"] = func(d nvml.Device) ([]float64, error) {
		s, r := d.GetRepairStatus()
		return []float64{flag(s.BChannelRepairPending != 0), flag(s.BTpcRepairPending != 0)}, call("nvmlDeviceGetRepairStatus").result(r)
	}
	all["unrepairable memory"] = func(d nvml.Device) ([]float64, error) {
		s, r := d.GetUnrepairableMemoryFlag_v1()
		return []float64{flag(s.BUnrepairableMemory != 0)}, call("nvmlDeviceGetUnrepairableMemoryFlag_v1").result(r)
	}
	all["row remapper"] = func(d nvml.Device) ([]float64, error) {
		h, r := d.GetRowRemapperHistogram()
		return []float64{float64(h.Max), float64(h.High), float64(h.Partial), float64(h.Low), float64(h.None)}, call("nvmlDeviceGetRowRemapperHistogram").result(r)
	}
	all["temperature margin"] = func(d nvml.Device) ([]float64, error) {
		m, r := d.GetMarginTemperature()
		return []float64{float64(m.MarginTemperature)}, call("nvmlDeviceGetMarginTemperature").result(r)
	}
	for name, threshold := range map[string]nvml.TemperatureThresholds{
		"shutdown": nvml.TEMPERATURE_THRESHOLD_SHUTDOWN, "slowdown": nvml.TEMPERATURE_THRESHOLD_SLOWDOWN,
		"memory maximum": nvml.TEMPERATURE_THRESHOLD_MEM_MAX, "GPU maximum": nvml.TEMPERATURE_THRESHOLD_GPU_MAX,
	} {
		all["temperature of "+name] = one("nvmlDeviceGetTemperatureThreshold", func(d nvml.Device) (uint32, nvml.Return) {
			return d.GetTemperatureThreshold(threshold)
		})
	}
}

// powerProfiles returns for each workload power profile of the driver whether it is in force, NaN where the GPU does not
// have it.
func powerProfiles(d nvml.Device) ([]float64, error) {
	p, r := d.WorkloadPowerProfileGetCurrentProfiles()
	if err := call("nvmlDeviceWorkloadPowerProfileGetCurrentProfiles").result(r); err != nil {
		return nil, err
	}
	profiles := make([]float64, nvml.POWER_PROFILE_MAX)
	for i := range profiles {
		profiles[i] = flag(p.EnforcedProfilesMask.Mask[i/32]>>(i%32)&1 != 0)
		if p.PerfProfilesMask.Mask[i/32]>>(i%32)&1 == 0 {
			profiles[i] = math.NaN()
		}
	}
	return profiles, nil
}

// confidentialMode returns the mode of confidential computing, which all GPUs of a machine share.
func (d *nvmlDevice) confidentialMode() (string, error) {
	s, r := d.library.binding.SystemGetConfComputeSettings()
	if err := call("nvmlSystemGetConfComputeSettings").result(r); err != nil {
		return "", err
	}
	switch {
	case s.MultiGpuMode == nvml.CC_SYSTEM_MULTIGPU_PROTECTED_PCIE:
		return "protected_pcie", nil
	case s.MultiGpuMode == nvml.CC_SYSTEM_MULTIGPU_NVLE:
		return "nvle", nil
	case s.CcFeature != nvml.CC_SYSTEM_FEATURE_ENABLED:
		return "none", nil
	case s.DevToolsMode == nvml.CC_SYSTEM_DEVTOOLS_MODE_ON:
		return "devtools", nil
	}
	return "on", nil
}

//go:build linux && cgo

package gpu

import "github.com/NVIDIA/go-nvml/pkg/nvml"

func (d *nvmlDevice) PCIeLink() (generation, width int, err error) {
	generation, err = call("nvmlDeviceGetCurrPcieLinkGeneration").number(d.handle.GetCurrPcieLinkGeneration())
	if err != nil {
		return 0, 0, err
	}
	width, err = call("nvmlDeviceGetCurrPcieLinkWidth").number(d.handle.GetCurrPcieLinkWidth())
	if err != nil {
		return 0, 0, err
	}
	return generation, width, nil
}

func (d *nvmlDevice) PCIeLinkMax() (generation, width int, err error) {
	generation, err = call("nvmlDeviceGetMaxPcieLinkGeneration").number(d.handle.GetMaxPcieLinkGeneration())
	if err != nil {
		return 0, 0, err
	}
	width, err = call("nvmlDeviceGetMaxPcieLinkWidth").number(d.handle.GetMaxPcieLinkWidth())
	if err != nil {
		return 0, 0, err
	}
	return generation, width, nil
}

func (d *nvmlDevice) PCIeReplays() (int, error) {
	return call("nvmlDeviceGetPcieReplayCounter").number(d.handle.GetPcieReplayCounter())
}

func (d *nvmlDevice) ECCErrors(uncorrected, lifetime bool) (uint64, error) {
	severity, since := nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC
	if uncorrected {
		severity = nvml.MEMORY_ERROR_TYPE_UNCORRECTED
	}
	if lifetime {
		since = nvml.AGGREGATE_ECC
	}
	return call("nvmlDeviceGetTotalEccErrors").long(d.handle.GetTotalEccErrors(severity, since))
}

func (d *nvmlDevice) RemappedRows() (RemappedRows, error) {
	correctable, uncorrectable, pending, failed, r := d.handle.GetRemappedRows()
	if err := call("nvmlDeviceGetRemappedRows").result(r); err != nil {
		return RemappedRows{}, err
	}
	return RemappedRows{
		Correctable: correctable, Uncorrectable: uncorrectable,
		Pending: pending, Failure: failed,
	}, nil
}

// ClockEventReasons falls back to the older name of the same call.
func (d *nvmlDevice) ClockEventReasons() (uint64, error) {
	reasons, err := call("nvmlDeviceGetCurrentClocksEventReasons").long(d.handle.GetCurrentClocksEventReasons())
	if refused(err) {
		return call("nvmlDeviceGetCurrentClocksThrottleReasons").long(d.handle.GetCurrentClocksThrottleReasons())
	}
	return reasons, err
}

// Fabric asks in the newer of the two forms that tell it, and in the older one
// where the driver does not know that.
func (d *nvmlDevice) Fabric() (Fabric, error) {
	const name = call("nvmlDeviceGetGpuFabricInfoV")
	newer, r := d.handle.GetGpuFabricInfoV().V3()
	err := name.result(r)
	if refused(err) {
		older, r := d.handle.GetGpuFabricInfoV().V2()
		return fabric(newerFabric(older)), name.result(r)
	}
	return fabric(newer), err
}

// newerFabric is the older form without what only the newer one tells.
func newerFabric(older nvml.GpuFabricInfo_v2) nvml.GpuFabricInfo_v3 {
	return nvml.GpuFabricInfo_v3{State: older.State, Status: older.Status, HealthMask: older.HealthMask}
}

func fabric(info nvml.GpuFabricInfo_v3) Fabric {
	return Fabric{State: int(info.State), Healthy: nvml.Return(info.Status) == nvml.SUCCESS && !fabricFault(info)}
}

// fabricFault tells whether the driver knows of a fault of the fabric. Of what
// it does not tell it says 0. Whether the GPU was given a partition of the
// fabric is the choice of who runs it.
func fabricFault(info nvml.GpuFabricInfo_v3) bool {
	switch info.HealthSummary {
	case nvml.GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY, nvml.GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY:
		return true
	}
	part := func(shift, width uint32) uint32 { return info.HealthMask >> shift & width }
	for _, p := range []struct{ shift, width, fault uint32 }{
		{nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_DEGRADED_BW, nvml.GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_TRUE},
		{nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ROUTE_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_ROUTE_RECOVERY_TRUE},
		{nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ROUTE_UNHEALTHY, nvml.GPU_FABRIC_HEALTH_MASK_ROUTE_UNHEALTHY_TRUE},
		{nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ACCESS_TIMEOUT_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_ACCESS_TIMEOUT_RECOVERY_TRUE},
	} {
		if part(p.shift, p.width) == p.fault {
			return true
		}
	}
	return part(nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_INCORRECT_CONFIGURATION) >
		nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE
}

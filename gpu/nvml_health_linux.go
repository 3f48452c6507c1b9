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

// FabricState asks in the newer of the two forms that tell it where the older
// one is gone.
func (d *nvmlDevice) FabricState() (int, error) {
	const name = call("nvmlDeviceGetGpuFabricInfoV")
	older, r := d.handle.GetGpuFabricInfoV().V2()
	err := name.result(r)
	if refused(err) {
		newer, r := d.handle.GetGpuFabricInfoV().V3()
		return name.number(int(newer.State), r)
	}
	if err != nil {
		return 0, err
	}
	return int(older.State), nil
}

//go:build linux && cgo

package gpu

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// nvmlDevice is a GPU or a MIG device.
type nvmlDevice struct {
	binding nvml.Interface
	handle  nvml.Device
}

func (d *nvmlDevice) UUID() (string, error) {
	return call("nvmlDeviceGetUUID").text(d.handle.GetUUID())
}

func (d *nvmlDevice) Name() (string, error) {
	return call("nvmlDeviceGetName").text(d.handle.GetName())
}

func (d *nvmlDevice) PCIBusID() (string, error) {
	info, r := d.handle.GetPciInfo()
	return call("nvmlDeviceGetPciInfo_v3").text(textOf(info.BusId[:]), r)
}

// textOf returns the text before the first NUL.
func textOf(chars []int8) string {
	text := make([]byte, 0, len(chars))
	for _, c := range chars {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	return string(text)
}

func (d *nvmlDevice) MinorNumber() (int, error) {
	return call("nvmlDeviceGetMinorNumber").number(d.handle.GetMinorNumber())
}

func (d *nvmlDevice) ComputeCapability() (string, error) {
	major, minor, r := d.handle.GetCudaComputeCapability()
	if err := call("nvmlDeviceGetCudaComputeCapability").result(r); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d", major, minor), nil
}

func (d *nvmlDevice) Memory() (Memory, error) {
	m, r := d.handle.GetMemoryInfo_v2()
	err := call("nvmlDeviceGetMemoryInfo_v2").result(r)
	if refused(err) {
		return d.memoryWithReserve()
	}
	if err != nil {
		return Memory{}, err
	}
	return Memory{Total: m.Total, Used: m.Used, Free: m.Free, Reserved: m.Reserved, ReservedKnown: true}, nil
}

// memoryWithReserve reads the memory of older drivers, which count the reserve
// as used.
func (d *nvmlDevice) memoryWithReserve() (Memory, error) {
	m, r := d.handle.GetMemoryInfo()
	if err := call("nvmlDeviceGetMemoryInfo").result(r); err != nil {
		return Memory{}, err
	}
	return Memory{Total: m.Total, Used: m.Used, Free: m.Free}, nil
}

func (d *nvmlDevice) MemoryBusWidth() (int, error) {
	return call("nvmlDeviceGetMemoryBusWidth").word(d.handle.GetMemoryBusWidth())
}

func (d *nvmlDevice) Utilization() (gpu, memory int, err error) {
	u, r := d.handle.GetUtilizationRates()
	if err := call("nvmlDeviceGetUtilizationRates").result(r); err != nil {
		return 0, 0, err
	}
	return int(u.Gpu), int(u.Memory), nil
}

func (d *nvmlDevice) EncoderUtilization() (int, error) {
	percent, _, r := d.handle.GetEncoderUtilization()
	return call("nvmlDeviceGetEncoderUtilization").word(percent, r)
}

func (d *nvmlDevice) DecoderUtilization() (int, error) {
	percent, _, r := d.handle.GetDecoderUtilization()
	return call("nvmlDeviceGetDecoderUtilization").word(percent, r)
}

func (d *nvmlDevice) Clock(domain ClockDomain) (int, error) {
	const name = call("nvmlDeviceGetClockInfo")
	kind, ok := clockType(domain)
	if !ok {
		return 0, name.unsupported()
	}
	return name.word(d.handle.GetClockInfo(kind))
}

func (d *nvmlDevice) MaxClock(domain ClockDomain) (int, error) {
	const name = call("nvmlDeviceGetMaxClockInfo")
	kind, ok := clockType(domain)
	if !ok {
		return 0, name.unsupported()
	}
	return name.word(d.handle.GetMaxClockInfo(kind))
}

func clockType(domain ClockDomain) (kind nvml.ClockType, ok bool) {
	switch domain {
	case ClockGraphics:
		return nvml.CLOCK_GRAPHICS, true
	case ClockSM:
		return nvml.CLOCK_SM, true
	case ClockMemory:
		return nvml.CLOCK_MEM, true
	case ClockVideo:
		return nvml.CLOCK_VIDEO, true
	default:
		return 0, false
	}
}

func (d *nvmlDevice) PowerUsage() (int, error) {
	return call("nvmlDeviceGetPowerUsage").word(d.handle.GetPowerUsage())
}

func (d *nvmlDevice) PowerLimit() (int, error) {
	return call("nvmlDeviceGetEnforcedPowerLimit").word(d.handle.GetEnforcedPowerLimit())
}

func (d *nvmlDevice) Energy() (uint64, error) {
	return call("nvmlDeviceGetTotalEnergyConsumption").long(d.handle.GetTotalEnergyConsumption())
}

// Temperature falls back to the older call, which knows no negative ones.
func (d *nvmlDevice) Temperature() (int, error) {
	t, r := d.handle.GetTemperatureV().V1()
	err := call("nvmlDeviceGetTemperatureV").result(r)
	if refused(err) {
		return call("nvmlDeviceGetTemperature").word(d.handle.GetTemperature(nvml.TEMPERATURE_GPU))
	}
	if err != nil {
		return 0, err
	}
	return int(t.Temperature), nil
}

func (d *nvmlDevice) FanCount() (int, error) {
	return call("nvmlDeviceGetNumFans").number(d.handle.GetNumFans())
}

func (d *nvmlDevice) FanSpeed(fan int) (int, error) {
	return call("nvmlDeviceGetFanSpeed_v2").word(d.handle.GetFanSpeed_v2(fan))
}

func (d *nvmlDevice) PerformanceState() (int, error) {
	const name = call("nvmlDeviceGetPerformanceState")
	state, r := d.handle.GetPerformanceState()
	if err := name.result(r); err != nil {
		return 0, err
	}
	if state < nvml.PSTATE_0 || state > nvml.PSTATE_15 {
		return 0, name.unsupported()
	}
	return int(state), nil
}

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

// Fabric uses the newer form of the call, and the older one where the driver does
// not have it.
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

// newerFabric converts the older form; what only the newer one has is 0.
func newerFabric(older nvml.GpuFabricInfo_v2) nvml.GpuFabricInfo_v3 {
	return nvml.GpuFabricInfo_v3{State: older.State, Status: older.Status, HealthMask: older.HealthMask}
}

func fabric(info nvml.GpuFabricInfo_v3) Fabric {
	return Fabric{State: int(info.State), Healthy: nvml.Return(info.Status) == nvml.SUCCESS && !fabricFault(info)}
}

// fabricFault reports whether the driver knows of a fault of the fabric. What it
// does not know is 0. Whether the GPU was given a partition of the
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

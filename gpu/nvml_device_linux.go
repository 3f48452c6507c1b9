//go:build linux && cgo

package gpu

import (
	"fmt"
	"math"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// nvmlDevice is a GPU or a MIG device.
type nvmlDevice struct {
	library *nvmlLibrary
	handle  nvml.Device
}

func (d *nvmlDevice) Text(question string) (string, error) {
	switch question {
	case "UUID":
		return call("nvmlDeviceGetUUID").text(d.handle.GetUUID())
	case "name":
		return call("nvmlDeviceGetName").text(d.handle.GetName())
	case "PCI bus id":
		info, r := d.handle.GetPciInfo()
		return call("nvmlDeviceGetPciInfo_v3").text(textOf(info.BusId[:]), r)
	case "compute capability":
		major, minor, r := d.handle.GetCudaComputeCapability()
		return call("nvmlDeviceGetCudaComputeCapability").text(fmt.Sprintf("%d.%d", major, minor), r)
	case "addressing mode":
		mode, r := d.handle.GetAddressingMode()
		return oneOf("nvmlDeviceGetAddressingMode", map[nvml.DeviceAddressingModeType]string{
			nvml.DEVICE_ADDRESSING_MODE_NONE: "none",
			nvml.DEVICE_ADDRESSING_MODE_HMM:  "hmm",
			nvml.DEVICE_ADDRESSING_MODE_ATS:  "ats",
		}, nvml.DeviceAddressingModeType(mode.Value), r)
	case "virtualization mode":
		mode, r := d.handle.GetVirtualizationMode()
		return oneOf("nvmlDeviceGetVirtualizationMode", map[nvml.GpuVirtualizationMode]string{
			nvml.GPU_VIRTUALIZATION_MODE_NONE:        "none",
			nvml.GPU_VIRTUALIZATION_MODE_PASSTHROUGH: "passthrough",
			nvml.GPU_VIRTUALIZATION_MODE_VGPU:        virtualizationGuest,
			nvml.GPU_VIRTUALIZATION_MODE_HOST_VGPU:   virtualizationHost,
			nvml.GPU_VIRTUALIZATION_MODE_HOST_VSGA:   "host_vsga",
		}, mode, r)
	case "confidential computing mode":
		return d.confidentialMode()
	case "chassis serial number", "slot number", "tray index", "host id", "module id":
		return d.platformText(question)
	case "fabric cluster", "fabric clique":
		return d.fabricText(question)
	}
	return "", call(question).unsupported()
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

func (d *nvmlDevice) Numbers(question string) ([]float64, error) {
	if ask := d.library.numbers[question]; ask != nil {
		return ask(d.handle)
	}
	return nil, call(question).unsupported()
}

// nvmlQuestion asks a device for numbers.
type nvmlQuestion func(nvml.Device) ([]float64, error)

// one is the question with one whole number for an answer.
func one[N int | uint32 | uint64](c call, get func(nvml.Device) (N, nvml.Return)) nvmlQuestion {
	return func(d nvml.Device) ([]float64, error) {
		v, r := get(d)
		return number(c, v, r)
	}
}

// number takes a value in which all bits set, of 32 or of 64, mean "not available".
func number[N int | uint32 | uint64](c call, v N, r nvml.Return) ([]float64, error) {
	if err := c.result(r); err != nil {
		return nil, err
	}
	_, long := any(v).(uint64)
	if uint64(v) == math.MaxUint64 || uint64(v) == math.MaxUint32 && !long {
		return nil, c.unsupported()
	}
	return []float64{float64(v)}, nil
}

// either is a question in its newer form, and in the older one where the driver does not have that.
func either(newer, older nvmlQuestion) nvmlQuestion {
	return func(d nvml.Device) ([]float64, error) {
		numbers, err := newer(d)
		if refused(err) {
			return older(d)
		}
		return numbers, err
	}
}

func nvmlNumbers() map[string]nvmlQuestion {
	all := map[string]nvmlQuestion{
		"minor number":     one("nvmlDeviceGetMinorNumber", nvml.Device.GetMinorNumber),
		"memory":           either(memoryBesideReserve, memoryWithReserve),
		"memory bus width": one("nvmlDeviceGetMemoryBusWidth", nvml.Device.GetMemoryBusWidth),
		"utilization": func(d nvml.Device) ([]float64, error) {
			u, r := d.GetUtilizationRates()
			return []float64{float64(u.Gpu), float64(u.Memory)}, call("nvmlDeviceGetUtilizationRates").result(r)
		},
		"encoder utilization": func(d nvml.Device) ([]float64, error) {
			percent, _, r := d.GetEncoderUtilization()
			return number("nvmlDeviceGetEncoderUtilization", percent, r)
		},
		"decoder utilization": func(d nvml.Device) ([]float64, error) {
			percent, _, r := d.GetDecoderUtilization()
			return number("nvmlDeviceGetDecoderUtilization", percent, r)
		},
		"power":                   one("nvmlDeviceGetPowerUsage", nvml.Device.GetPowerUsage),
		"power limit":             one("nvmlDeviceGetEnforcedPowerLimit", nvml.Device.GetEnforcedPowerLimit),
		"default power limit":     one("nvmlDeviceGetPowerManagementDefaultLimit", nvml.Device.GetPowerManagementDefaultLimit),
		"requested power limit":   one("nvmlDeviceGetPowerManagementLimit", nvml.Device.GetPowerManagementLimit),
		"workload power profiles": powerProfiles,
		"energy":                  one("nvmlDeviceGetTotalEnergyConsumption", nvml.Device.GetTotalEnergyConsumption),
		// The older call knows no negative temperatures.
		"temperature": either(func(d nvml.Device) ([]float64, error) {
			t, r := d.GetTemperatureV().V1()
			return []float64{float64(t.Temperature)}, call("nvmlDeviceGetTemperatureV").result(r)
		}, one("nvmlDeviceGetTemperature", func(d nvml.Device) (uint32, nvml.Return) { return d.GetTemperature(nvml.TEMPERATURE_GPU) })),
		"fans": fanSpeeds,
		"performance state": func(d nvml.Device) ([]float64, error) {
			const name = call("nvmlDeviceGetPerformanceState")
			state, r := d.GetPerformanceState()
			if r == nvml.SUCCESS && (state < nvml.PSTATE_0 || state > nvml.PSTATE_15) {
				return nil, name.unsupported()
			}
			return number(name, int(state), r)
		},
		"PCIe generation":         one("nvmlDeviceGetCurrPcieLinkGeneration", nvml.Device.GetCurrPcieLinkGeneration),
		"PCIe width":              one("nvmlDeviceGetCurrPcieLinkWidth", nvml.Device.GetCurrPcieLinkWidth),
		"highest PCIe generation": one("nvmlDeviceGetMaxPcieLinkGeneration", nvml.Device.GetMaxPcieLinkGeneration),
		"highest PCIe width":      one("nvmlDeviceGetMaxPcieLinkWidth", nvml.Device.GetMaxPcieLinkWidth),
		"PCIe replays":            one("nvmlDeviceGetPcieReplayCounter", nvml.Device.GetPcieReplayCounter),
		"remapped rows": func(d nvml.Device) ([]float64, error) {
			correctable, uncorrectable, pending, failed, r := d.GetRemappedRows()
			return []float64{float64(correctable), float64(uncorrectable), flag(pending), flag(failed)}, call("nvmlDeviceGetRemappedRows").result(r)
		},
		"clock event reasons": either(
			one("nvmlDeviceGetCurrentClocksEventReasons", nvml.Device.GetCurrentClocksEventReasons),
			one("nvmlDeviceGetCurrentClocksThrottleReasons", nvml.Device.GetCurrentClocksThrottleReasons),
		),
		"fabric state": fabricState,
		"MIG mode": func(d nvml.Device) ([]float64, error) {
			current, _, r := d.GetMigMode()
			return []float64{flag(current == nvml.DEVICE_MIG_ENABLE)}, call("nvmlDeviceGetMigMode").result(r)
		},
		"unit counters": func(d nvml.Device) ([]float64, error) {
			const name = call("nvmlGpmQueryDeviceSupport")
			support, r := d.GpmQueryDeviceSupport()
			if r == nvml.SUCCESS && support.IsSupportedDevice == 0 {
				return nil, name.unsupported()
			}
			return []float64{1}, name.result(r)
		},
		"vGPU license": license,
	}
	addClocks(all)
	addECCErrors(all)
	addHealth(all)
	return all
}

// addClocks adds the clock of each domain, and the highest it may have.
func addClocks(all map[string]nvmlQuestion) {
	for domain, clock := range map[string]nvml.ClockType{
		"graphics": nvml.CLOCK_GRAPHICS, "sm": nvml.CLOCK_SM, "memory": nvml.CLOCK_MEM, "video": nvml.CLOCK_VIDEO,
	} {
		all["clock "+domain] = one("nvmlDeviceGetClockInfo", func(d nvml.Device) (uint32, nvml.Return) { return d.GetClockInfo(clock) })
		all["highest clock "+domain] = one("nvmlDeviceGetMaxClockInfo", func(d nvml.Device) (uint32, nvml.Return) {
			return d.GetMaxClockInfo(clock)
		})
	}
}

// addECCErrors adds the counts of each severity, since the driver was loaded and of the lifetime.
func addECCErrors(all map[string]nvmlQuestion) {
	for severity, errors := range map[string]nvml.MemoryErrorType{
		"corrected": nvml.MEMORY_ERROR_TYPE_CORRECTED, "uncorrected": nvml.MEMORY_ERROR_TYPE_UNCORRECTED,
	} {
		for lifetime, since := range map[string]nvml.EccCounterType{"": nvml.VOLATILE_ECC, ", lifetime": nvml.AGGREGATE_ECC} {
			all["ECC errors, "+severity+lifetime] = one("nvmlDeviceGetTotalEccErrors", func(d nvml.Device) (uint64, nvml.Return) {
				return d.GetTotalEccErrors(errors, since)
			})
		}
	}
}

// memoryBesideReserve returns the total, what is used and free, and the reserve of the driver.
func memoryBesideReserve(d nvml.Device) ([]float64, error) {
	m, r := d.GetMemoryInfo_v2()
	return []float64{float64(m.Total), float64(m.Used), float64(m.Free), float64(m.Reserved)}, call("nvmlDeviceGetMemoryInfo_v2").result(r)
}

// memoryWithReserve reads the memory of older drivers, which count the reserve as used.
func memoryWithReserve(d nvml.Device) ([]float64, error) {
	m, r := d.GetMemoryInfo()
	return []float64{float64(m.Total), float64(m.Used), float64(m.Free)}, call("nvmlDeviceGetMemoryInfo").result(r)
}

// fanSpeeds returns the speed of each fan in percent of the maximum, which it may exceed.
func fanSpeeds(d nvml.Device) ([]float64, error) {
	fans, r := d.GetNumFans()
	if err := call("nvmlDeviceGetNumFans").result(r); err != nil {
		return nil, err
	}
	var speeds []float64
	for fan := range min(fans, maxFans) {
		speed, r := d.GetFanSpeed_v2(fan)
		percent, err := number("nvmlDeviceGetFanSpeed_v2", speed, r)
		if err != nil {
			return nil, err
		}
		speeds = append(speeds, percent...)
	}
	return speeds, nil
}

// license returns whether a vGPU has a license, and the Unix time at which that expires: NaN where it does not, or that
// is unknown.
func license(d nvml.Device) ([]float64, error) {
	const name = call("nvmlDeviceGetGridLicensableFeatures")
	found, r := d.GetGridLicensableFeatures()
	if err := name.result(r); err != nil {
		return nil, err
	}
	features := found.GridLicensableFeatures[:min(int(found.LicensableFeaturesCount), len(found.GridLicensableFeatures))]
	if found.IsGridLicenseSupported == 0 || len(features) == 0 {
		return nil, name.unsupported()
	}
	licensed, expires := false, math.NaN()
	for _, f := range features {
		if f.FeatureState != 0 {
			licensed, expires = true, licenseExpiry(f.LicenseExpiry)
		}
	}
	return []float64{flag(licensed), expires}, nil
}

// licenseExpiry converts the driver's time, which is UTC.
func licenseExpiry(e nvml.GridLicenseExpiry) float64 {
	if e.Status != nvml.GRID_LICENSE_EXPIRY_VALID {
		return math.NaN()
	}
	at := time.Date(int(e.Year), time.Month(e.Month), int(e.Day), int(e.Hour), int(e.Min), int(e.Sec), 0, time.UTC)
	return float64(at.Unix())
}

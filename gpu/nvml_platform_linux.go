//go:build linux && cgo

package gpu

import (
	"encoding/binary"
	"reflect"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func (d *nvmlDevice) AddressingMode() (AddressingMode, error) {
	const name = call("nvmlDeviceGetAddressingMode")
	mode, r := d.handle.GetAddressingMode()
	if err := name.result(r); err != nil {
		return "", err
	}
	switch nvml.DeviceAddressingModeType(mode.Value) {
	case nvml.DEVICE_ADDRESSING_MODE_NONE:
		return AddressingNone, nil
	case nvml.DEVICE_ADDRESSING_MODE_HMM:
		return AddressingHMM, nil
	case nvml.DEVICE_ADDRESSING_MODE_ATS:
		return AddressingATS, nil
	default:
		return "", name.unsupported()
	}
}

func (d *nvmlDevice) VirtualizationMode() (VirtualizationMode, error) {
	const name = call("nvmlDeviceGetVirtualizationMode")
	mode, r := d.handle.GetVirtualizationMode()
	if err := name.result(r); err != nil {
		return "", err
	}
	switch mode {
	case nvml.GPU_VIRTUALIZATION_MODE_NONE:
		return VirtualizationNone, nil
	case nvml.GPU_VIRTUALIZATION_MODE_PASSTHROUGH:
		return VirtualizationPassthrough, nil
	case nvml.GPU_VIRTUALIZATION_MODE_VGPU:
		return VirtualizationGuest, nil
	case nvml.GPU_VIRTUALIZATION_MODE_HOST_VGPU:
		return VirtualizationHost, nil
	case nvml.GPU_VIRTUALIZATION_MODE_HOST_VSGA:
		return VirtualizationShared, nil
	default:
		return "", name.unsupported()
	}
}

func (d *nvmlDevice) License() (License, error) {
	const name = call("nvmlDeviceGetGridLicensableFeatures")
	found, r := d.handle.GetGridLicensableFeatures()
	if err := name.result(r); err != nil {
		return License{}, err
	}
	features := found.GridLicensableFeatures[:min(int(found.LicensableFeaturesCount), len(found.GridLicensableFeatures))]
	if found.IsGridLicenseSupported == 0 || len(features) == 0 {
		return License{}, name.unsupported()
	}
	var license License
	for _, f := range features {
		if f.FeatureState != 0 {
			license.Licensed = true
			license.Expires = licenseExpiry(f.LicenseExpiry)
		}
	}
	return license, nil
}

// licenseExpiry returns zero for a license that does not expire. The driver's
// time is UTC.
func licenseExpiry(e nvml.GridLicenseExpiry) time.Time {
	if e.Status != nvml.GRID_LICENSE_EXPIRY_VALID {
		return time.Time{}
	}
	return time.Date(int(e.Year), time.Month(e.Month), int(e.Day), int(e.Hour), int(e.Min), int(e.Sec), 0, time.UTC)
}

func (d *nvmlDevice) VGPUs() ([]VGPU, error) {
	instances, r := d.handle.GetActiveVgpus()
	if err := call("nvmlDeviceGetActiveVgpus").result(r); err != nil {
		return nil, err
	}
	var list []VGPU
	for _, instance := range instances[:min(len(instances), maxVGPUs)] {
		uuid, err := call("nvmlVgpuInstanceGetUUID").text(instance.GetUUID())
		if err != nil {
			continue // it went while it was looked at
		}
		v := VGPU{ID: vgpuID(instance), UUID: uuid, Profile: vgpuProfile(instance)}
		id, _, r := instance.GetVmID()
		v.VM, _ = call("nvmlVgpuInstanceGetVmID").text(id, r)
		v.MemoryUsed, err = call("nvmlVgpuInstanceGetFbUsage").long(instance.GetFbUsage())
		v.MemoryKnown = err == nil
		list = append(list, v)
	}
	return list, nil
}

// vgpuID returns the driver's number of a vGPU, by which its samples name it. The
// binding's type for it is a number that it does not export.
func vgpuID(instance nvml.VgpuInstance) uint32 { return uint32(reflect.ValueOf(instance).Uint()) }

// vgpuProfile returns the name of a vGPU's type, such as "NVIDIA L40S-24Q"; "" is
// unknown.
func vgpuProfile(instance nvml.VgpuInstance) string {
	kind, r := instance.GetType()
	if r != nvml.SUCCESS {
		return ""
	}
	name, _ := call("nvmlVgpuTypeGetName").text(kind.GetName())
	return name
}

func (d *nvmlDevice) VGPUUtilization(since uint64) ([]VGPUSample, error) {
	kind, found, r := vgpuUtilization(d.handle, since)
	const name = call("nvmlDeviceGetVgpuUtilization")
	if err := name.result(r); err != nil {
		return nil, err
	}
	if kind != nvml.VALUE_TYPE_UNSIGNED_INT {
		return nil, name.unsupported()
	}
	samples := make([]VGPUSample, 0, len(found))
	for _, s := range found {
		share := binary.NativeEndian.Uint32(s.SmUtil[:])
		if share > 100 { // not filled
			continue
		}
		samples = append(samples, VGPUSample{ID: s.VgpuInstance, Timestamp: s.TimeStamp, SM: int(share)})
	}
	return samples, nil
}

// vgpuUtilization asks the binding, which panics if the driver counts no vGPU
// and yet wants more room.
func vgpuUtilization(handle nvml.Device, since uint64) (kind nvml.ValueType, samples []nvml.VgpuInstanceUtilizationSample, r nvml.Return) {
	defer func() {
		if recover() != nil {
			samples, r = nil, nvml.ERROR_NO_DATA
		}
	}()
	return handle.GetVgpuUtilization(since)
}

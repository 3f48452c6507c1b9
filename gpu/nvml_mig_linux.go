//go:build linux && cgo

package gpu

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// migSlotsMax bounds the search for MIG devices; GPUs have up to 8 slots.
const migSlotsMax = 64

func (d *nvmlDevice) MIGEnabled() (bool, error) {
	current, _, r := d.handle.GetMigMode()
	if err := call("nvmlDeviceGetMigMode").result(r); err != nil {
		return false, err
	}
	return current == nvml.DEVICE_MIG_ENABLE, nil
}

func (d *nvmlDevice) MIGDevices() ([]MIGDevice, error) {
	slots, err := call("nvmlDeviceGetMaxMigDeviceCount").number(d.handle.GetMaxMigDeviceCount())
	if err != nil {
		return nil, err
	}
	var devices []MIGDevice
	for slot := range min(slots, migSlotsMax) {
		device, err := d.migDevice(slot)
		if emptySlot(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		devices = append(devices, device)
	}
	return devices, nil
}

func (d *nvmlDevice) migDevice(slot int) (MIGDevice, error) {
	handle, r := d.handle.GetMigDeviceHandleByIndex(slot)
	if err := call("nvmlDeviceGetMigDeviceHandleByIndex").result(r); err != nil {
		return MIGDevice{}, err
	}
	gpuInstance, err := call("nvmlDeviceGetGpuInstanceId").number(handle.GetGpuInstanceId())
	if err != nil {
		return MIGDevice{}, err
	}
	computeInstance, err := call("nvmlDeviceGetComputeInstanceId").number(handle.GetComputeInstanceId())
	if err != nil {
		return MIGDevice{}, err
	}
	return MIGDevice{
		Device:          &nvmlDevice{binding: d.binding, handle: handle},
		GPUInstance:     gpuInstance,
		ComputeInstance: computeInstance,
	}, nil
}

// emptySlot tells whether there is no MIG device in a slot, or no longer.
func emptySlot(err error) bool {
	e, ok := err.(*Error)
	return ok && (e.Code == CodeNotFound || e.Number == int(nvml.ERROR_INVALID_ARGUMENT))
}

//go:build linux && cgo

package gpu

import (
	"encoding/binary"
	"math"
	"reflect"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func (d *nvmlDevice) Fields(fields []Field) ([]FieldResult, error) {
	if len(fields) == 0 { // the binding would panic
		return nil, nil
	}
	values := make([]nvml.FieldValue, len(fields))
	for i, f := range fields {
		values[i] = nvml.FieldValue{FieldId: uint32(f.ID), ScopeId: f.Scope}
	}
	const name = call("nvmlDeviceGetFieldValues")
	if err := name.result(d.handle.GetFieldValues(values)); err != nil {
		return nil, err
	}
	results := make([]FieldResult, len(fields))
	for i := range values {
		results[i] = fieldResult(name, &values[i])
	}
	return results, nil
}

func fieldResult(name call, v *nvml.FieldValue) FieldResult {
	r := nvml.Return(v.NvmlReturn)
	if r == nvml.ERROR_INVALID_ARGUMENT { // a number or a link that this GPU does not have
		r = nvml.ERROR_NOT_SUPPORTED
	}
	if err := name.result(r); err != nil {
		return FieldResult{Err: err}
	}
	value, ok := fieldValue(nvml.ValueType(v.ValueType), v.Value)
	if !ok {
		return FieldResult{Err: name.unsupported()}
	}
	return FieldResult{Value: value}
}

// fieldValue decodes a value by its type. It is not ok if the type is unknown or the value is not a finite number.
func fieldValue(kind nvml.ValueType, raw [8]byte) (value float64, ok bool) {
	long := binary.NativeEndian.Uint64(raw[:])
	word := binary.NativeEndian.Uint32(raw[:])
	switch kind {
	case nvml.VALUE_TYPE_DOUBLE:
		value = math.Float64frombits(long)
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		value = float64(word)
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		value = float64(long)
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		value = float64(int64(long))
	case nvml.VALUE_TYPE_SIGNED_INT:
		value = float64(int32(word))
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		value = float64(binary.NativeEndian.Uint16(raw[:]))
	default:
		return 0, false
	}
	return value, !math.IsNaN(value) && !math.IsInf(value, 0)
}

// migSlotsMax bounds the search for MIG devices; GPUs have up to 8 slots.
const migSlotsMax = 64

func (d *nvmlDevice) MIGDevices() ([]MIGDevice, error) {
	slots, r := d.handle.GetMaxMigDeviceCount()
	if err := call("nvmlDeviceGetMaxMigDeviceCount").result(r); err != nil {
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
	gpuInstance, r := handle.GetGpuInstanceId()
	if err := call("nvmlDeviceGetGpuInstanceId").result(r); err != nil {
		return MIGDevice{}, err
	}
	computeInstance, r := handle.GetComputeInstanceId()
	return MIGDevice{&nvmlDevice{d.library, handle}, gpuInstance, computeInstance}, call("nvmlDeviceGetComputeInstanceId").result(r)
}

// emptySlot reports whether there is no MIG device in a slot, or no longer.
func emptySlot(err error) bool {
	e, ok := err.(*Error)
	return ok && (e.Code == CodeNotFound || e.Number == int(nvml.ERROR_INVALID_ARGUMENT))
}

func (d *nvmlDevice) Processes() ([]Process, error) {
	found, r := d.handle.GetComputeRunningProcesses()
	if err := call("nvmlDeviceGetComputeRunningProcesses_v3").result(r); err != nil {
		return nil, err
	}
	processes := make([]Process, len(found))
	for i, p := range found {
		processes[i] = Process{int(p.Pid), unknown}
		if p.UsedGpuMemory != math.MaxUint64 {
			processes[i].MemoryUsed = float64(p.UsedGpuMemory)
		}
	}
	return processes, nil
}

func (d *nvmlDevice) ProcessUtilization(since uint64) ([]Sample, error) {
	var found []nvml.ProcessUtilizationSample
	r := guarded(func() (r nvml.Return) { found, r = d.handle.GetProcessUtilization(since); return r })
	if r == nvml.ERROR_INSUFFICIENT_SIZE { // its answer for none
		r = nvml.ERROR_NOT_FOUND
	}
	if err := call("nvmlDeviceGetProcessUtilization").result(r); err != nil {
		return nil, err
	}
	samples := make([]Sample, 0, len(found))
	for _, s := range found {
		// Drivers leave entries unfilled.
		if s.Pid == 0 || s.SmUtil > 100 {
			continue
		}
		samples = append(samples, Sample{ID: int(s.Pid), Timestamp: s.TimeStamp, SM: int(s.SmUtil)})
	}
	return samples, nil
}

// nvmlSample is a sample in memory of the library.
type nvmlSample struct{ nvml.GpmSample }

func (s nvmlSample) Free() { _ = s.GpmSample.Free() }

func (d *nvmlDevice) GPMSample() (GPMSample, error) {
	sample, r := d.library.binding.GpmSampleAlloc()
	if err := call("nvmlGpmSampleAlloc").result(r); err != nil {
		return nil, err
	}
	if err := call("nvmlGpmSampleGet").result(sample.Get(d.handle)); err != nil {
		_ = sample.Free()
		return nil, err
	}
	return nvmlSample{sample}, nil
}

func (d *nvmlDevice) GPMMetrics(older, newer GPMSample, ids []int) (map[int]float64, error) {
	request := nvml.GpmMetricsGetType{Sample1: older.(nvmlSample).GpmSample, Sample2: newer.(nvmlSample).GpmSample}
	request.NumMetrics = uint32(min(len(ids), len(request.Metrics)))
	for i := range request.NumMetrics {
		request.Metrics[i].MetricId = uint32(ids[i])
	}
	if err := call("nvmlGpmMetricsGet").result(d.library.binding.GpmMetricsGet(&request)); err != nil {
		return nil, err
	}
	metrics := make(map[int]float64, request.NumMetrics)
	for _, m := range request.Metrics[:request.NumMetrics] {
		if nvml.Return(m.NvmlReturn) == nvml.SUCCESS && !math.IsNaN(m.Value) && !math.IsInf(m.Value, 0) {
			metrics[int(m.MetricId)] = m.Value
		}
	}
	return metrics, nil
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
		v := VGPUSnapshot{UUID: uuid, Profile: vgpuProfile(instance), MemoryUsed: unknown}
		id, _, r := instance.GetVmID()
		v.VM, _ = call("nvmlVgpuInstanceGetVmID").text(id, r)
		used, r := instance.GetFbUsage()
		if bytes, err := number("nvmlVgpuInstanceGetFbUsage", used, r); err == nil {
			v.MemoryUsed = bytes[0]
		}
		list = append(list, VGPU{vgpuID(instance), v})
	}
	return list, nil
}

// vgpuID returns the driver's number of a vGPU, by which its samples name it. The binding's type for it is a number
// that it does not export.
func vgpuID(instance nvml.VgpuInstance) int { return int(reflect.ValueOf(instance).Uint()) }

// vgpuProfile returns the name of a vGPU's type, such as "NVIDIA L40S-24Q"; "" is unknown.
func vgpuProfile(instance nvml.VgpuInstance) string {
	kind, r := instance.GetType()
	if r != nvml.SUCCESS {
		return ""
	}
	name, _ := call("nvmlVgpuTypeGetName").text(kind.GetName())
	return name
}

func (d *nvmlDevice) VGPUUtilization(since uint64) ([]Sample, error) {
	var kind nvml.ValueType
	var found []nvml.VgpuInstanceUtilizationSample
	r := guarded(func() (r nvml.Return) { kind, found, r = d.handle.GetVgpuUtilization(since); return r })
	const name = call("nvmlDeviceGetVgpuUtilization")
	if err := name.result(r); err != nil {
		return nil, err
	}
	if kind != nvml.VALUE_TYPE_UNSIGNED_INT {
		return nil, name.unsupported()
	}
	samples := make([]Sample, 0, len(found))
	for _, s := range found {
		share := binary.NativeEndian.Uint32(s.SmUtil[:])
		if share > 100 { // not filled
			continue
		}
		samples = append(samples, Sample{ID: int(s.VgpuInstance), Timestamp: s.TimeStamp, SM: int(share)})
	}
	return samples, nil
}

// guarded asks the binding for samples. It panics if there are more of them at its second call than at its first, of
// which the next poll has them, or if the driver counts no vGPU and yet wants more room.
func guarded(ask func() nvml.Return) (r nvml.Return) {
	defer func() {
		if recover() != nil {
			r = nvml.ERROR_NO_DATA
		}
	}()
	return ask()
}

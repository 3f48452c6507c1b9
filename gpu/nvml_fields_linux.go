//go:build linux && cgo

package gpu

import (
	"encoding/binary"
	"math"

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

// fieldValue decodes a value by its type. It is not ok if the type is unknown
// or the value is not a finite number.
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

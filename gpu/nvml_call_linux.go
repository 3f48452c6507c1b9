//go:build linux && cgo

package gpu

import (
	"math"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// call is the name of a function of the library; its methods take what the
// binding returns for it.
type call string

// result returns nil, or an *Error for a code that is not success.
func (c call) result(r nvml.Return) error {
	if r == nvml.SUCCESS {
		return nil
	}
	return c.failure(r)
}

func (c call) failure(r nvml.Return) *Error {
	return &Error{Call: string(c), Code: nvmlCode(r), Number: int(r)}
}

// unsupported is the failure of a call that gave no usable value.
func (c call) unsupported() error {
	return &Error{Call: string(c), Code: CodeNotSupported}
}

// number takes a value in which all bits of a word set, or -1, stand for "not
// available".
func (c call) number(v int, r nvml.Return) (int, error) {
	if err := c.result(r); err != nil {
		return 0, err
	}
	if v < 0 || int64(v) == math.MaxUint32 {
		return 0, c.unsupported()
	}
	return v, nil
}

func (c call) word(v uint32, r nvml.Return) (int, error) {
	return c.number(int(v), r)
}

// long is number for 64 bits.
func (c call) long(v uint64, r nvml.Return) (uint64, error) {
	if err := c.result(r); err != nil {
		return 0, err
	}
	if v == math.MaxUint64 {
		return 0, c.unsupported()
	}
	return v, nil
}

func (c call) text(v string, r nvml.Return) (string, error) {
	if err := c.result(r); err != nil {
		return "", err
	}
	return bounded(v), nil
}

// bounded makes a text of the driver or the system fit for a label and a log.
func bounded(text string) string {
	const most = 256
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// nvmlCode names a return code. The binding could name it too, but asks the
// driver for the name.
func nvmlCode(r nvml.Return) Code {
	switch r {
	case nvml.ERROR_UNINITIALIZED:
		return CodeUninitialized
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_ARGUMENT_VERSION_MISMATCH, nvml.ERROR_DEPRECATED:
		return CodeNotSupported
	case nvml.ERROR_NO_PERMISSION:
		return CodeNoPermission
	case nvml.ERROR_NOT_FOUND:
		return CodeNotFound
	case nvml.ERROR_NO_DATA:
		return CodeNoData
	case nvml.ERROR_TIMEOUT:
		return CodeTimeout
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return CodeDriverNotLoaded
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return CodeLibraryNotFound
	case nvml.ERROR_FUNCTION_NOT_FOUND:
		return CodeFunctionNotFound
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return CodeVersionMismatch
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_GPU_NOT_FOUND:
		return CodeLost
	case nvml.ERROR_RESET_REQUIRED:
		return CodeResetRequired
	case nvml.ERROR_OPERATING_SYSTEM:
		return CodeOperatingSystem
	default:
		return CodeUnknown
	}
}

// refused tells whether a newer form of a call is not to be had, so that an
// older one may be.
func refused(err error) bool {
	e, ok := err.(*Error)
	return ok && (e.Code == CodeFunctionNotFound || e.Code == CodeNotSupported)
}

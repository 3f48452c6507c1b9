package gpu

import "fmt"

// Code tells why a call failed: the return codes of NVML that matter, under
// names of our own, as the driver's own texts need the driver.
type Code string

// The codes.
const (
	CodeUninitialized    Code = "uninitialized"
	CodeNotSupported     Code = "not_supported"
	CodeNoPermission     Code = "no_permission"
	CodeNotFound         Code = "not_found"
	CodeNoData           Code = "no_data"
	CodeTimeout          Code = "timeout"
	CodeDriverNotLoaded  Code = "driver_not_loaded"
	CodeLibraryNotFound  Code = "library_not_found"
	CodeFunctionNotFound Code = "function_not_found" // the driver is too old
	CodeVersionMismatch  Code = "driver_mismatch"    // the driver was replaced under us
	CodeLost             Code = "gpu_lost"
	CodeResetRequired    Code = "reset_required"
	CodeOperatingSystem  Code = "operating_system" // the control group keeps the device back
	CodeNotBuilt         Code = "not_built"        // the program was built without NVML
	CodeUnknown          Code = "unknown"
)

// Error is a failed call.
type Error struct {
	// Call is the function of the library.
	Call string
	Code Code
	// Number is the return code of the library, 0 where it was not asked.
	Number int
	// Detail says more where more is known, such as why the library could not
	// be loaded.
	Detail string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s", e.Call, e.Code)
	if e.Number != 0 {
		text += fmt.Sprintf(" (%d)", e.Number)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Is tells whether target is an error of the same code, so that errors.Is
// works with &Error{Code: ...}.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Call == ""
}

package gpu

import (
	"fmt"
	"time"
)

// Library is the driver's management library as the poller needs it: plain
// types, no trace of the binding. Its methods and those of what it returns are
// called by one goroutine at a time, and only between a successful Open and
// Close. Every error is an *Error.
type Library interface {
	// Open loads and initialises the library.
	Open() error
	// Close ends its use; Open may follow.
	Close()
	// DriverVersion returns the version of the driver, such as "550.54.15".
	DriverVersion() (string, error)
	// CUDAVersion returns the newest CUDA version of the driver, such as 12.4.
	CUDAVersion() (string, error)
	// DeviceCount returns how many GPUs there are, those included that may not
	// be opened.
	DeviceCount() (int, error)
	// Device opens the GPU of an index, which may take seconds.
	Device(index int) (Device, error)
	// Watch asks for the critical errors (XID) of a device from now on.
	Watch(d Device) error
	// NextXID returns one critical error that a watched device had, without
	// waiting; CodeTimeout when there is none.
	NextXID() (XID, error)
}

// Device is one GPU, or one MIG device of a GPU.
type Device interface {
	UUID() (string, error)
	Name() (string, error)
	// PCIBusID is as in 00000000:3B:00.0.
	PCIBusID() (string, error)
	// MinorNumber is N of /dev/nvidiaN.
	MinorNumber() (int, error)
	// ComputeCapability is as in "9.0".
	ComputeCapability() (string, error)

	// Memory falls back to the older call, which knows no reserve.
	Memory() (Memory, error)
	// MemoryBusWidth is in bits.
	MemoryBusWidth() (int, error)
	// Utilization is the share of time, in percent, in which any kernel ran,
	// and in which memory was read or written.
	Utilization() (gpu, memory int, err error)
	// EncoderUtilization and DecoderUtilization are in percent.
	EncoderUtilization() (int, error)
	DecoderUtilization() (int, error)
	// Clock and MaxClock are in MHz.
	Clock(ClockDomain) (int, error)
	MaxClock(ClockDomain) (int, error)
	// PowerUsage and PowerLimit (the enforced one) are in milliwatts.
	PowerUsage() (int, error)
	PowerLimit() (int, error)
	// Energy is in millijoules since the driver was loaded.
	Energy() (uint64, error)
	// Temperature of the GPU is in degrees Celsius.
	Temperature() (int, error)
	FanCount() (int, error)
	// FanSpeed is in percent of the maximum, and may exceed 100.
	FanSpeed(fan int) (int, error)
	// PerformanceState is 0, the fastest, to 15; unknown is CodeNotSupported.
	PerformanceState() (int, error)
	// PCIeLink is the generation and the number of lanes, PCIeLinkMax what the
	// device can do.
	PCIeLink() (generation, width int, err error)
	PCIeLinkMax() (generation, width int, err error)
	PCIeReplays() (int, error)
	// ECCErrors are those since the driver was loaded (volatile) or over the
	// life of the device.
	ECCErrors(uncorrected, lifetime bool) (uint64, error)
	RemappedRows() (RemappedRows, error)
	// ClockEventReasons is a mask of the bits of the driver.
	ClockEventReasons() (uint64, error)
	// Fabric returns the state of the device in the NVLink fabric.
	Fabric() (Fabric, error)
	// Fields reads many values in one go; each result has its own error. fields
	// is not empty.
	Fields(fields []Field) ([]FieldResult, error)

	// AddressingMode returns how the GPU and its CPU address each other's memory.
	AddressingMode() (AddressingMode, error)
	// VirtualizationMode returns what the GPU is to a virtual machine.
	VirtualizationMode() (VirtualizationMode, error)
	// License returns the state of the license of a vGPU in its virtual machine.
	License() (License, error)
	// VGPUs returns the vGPUs that run on the GPU of a host.
	VGPUs() ([]VGPU, error)
	// VGPUUtilization returns samples newer than the given time of the driver
	// (microseconds), CodeNotFound when there are none.
	VGPUUtilization(since uint64) ([]VGPUSample, error)

	// MIGEnabled reports whether the GPU is split.
	MIGEnabled() (bool, error)
	// MIGDevices returns the MIG devices that exist now.
	MIGDevices() ([]MIGDevice, error)

	// Processes are the compute processes.
	Processes() ([]Process, error)
	// ProcessUtilization returns samples newer than the given time of the
	// driver (microseconds), CodeNotFound when there are none.
	ProcessUtilization(since uint64) ([]ProcessSample, error)

	// GPMSupported reports whether the device counts what its units do.
	GPMSupported() (bool, error)
	// GPMSample takes a sample, to be freed.
	GPMSample() (GPMSample, error)
	// GPMMetrics computes the metrics with the given ids from two samples that
	// are at least 100 ms apart. A metric that is not there is left out.
	GPMMetrics(older, newer GPMSample, ids []int) (map[int]float64, error)
}

// GPMSample is a sample of what the units of a device did.
type GPMSample interface{ Free() }

// Memory is the memory of a device, in bytes.
type Memory struct {
	Total, Used, Free uint64
	// Reserved is what the driver keeps for itself, which Used then leaves out.
	// Valid only if ReservedKnown.
	Reserved      uint64
	ReservedKnown bool
}

// RemappedRows are rows of memory that were replaced.
type RemappedRows struct {
	Correctable, Uncorrectable int
	Pending, Failure           bool
}

// Fabric is the state of a device in the NVLink fabric.
type Fabric struct {
	// State is 0 unsupported, 1 not started, 2 in progress, 3 completed.
	State int
	// Healthy reports that the device was registered without an error and that the
	// driver knows of no fault. Valid only in state 3.
	Healthy bool
}

// ClockDomain is a clock of a device.
type ClockDomain string

// The clocks.
const (
	ClockGraphics ClockDomain = "graphics"
	ClockSM       ClockDomain = "sm"
	ClockMemory   ClockDomain = "memory"
	ClockVideo    ClockDomain = "video"
)

// Field names a value by its number in NVML (NVML_FI_DEV_...), with its scope,
// such as the number of a link.
type Field struct {
	ID    int
	Scope uint32
}

// FieldResult is the value of a field, or why there is none.
type FieldResult struct {
	Value float64
	Err   error
}

// MIGDevice is a part of a GPU.
type MIGDevice struct {
	Device
	GPUInstance, ComputeInstance int
}

// Process is a process that has memory on a device.
type Process struct {
	PID int
	// MemoryUsed is in bytes; valid only if MemoryKnown.
	MemoryUsed  uint64
	MemoryKnown bool
}

// ProcessSample is what a process used since the sample before, in percent.
type ProcessSample struct {
	PID       int
	Timestamp uint64 // microseconds, the driver's
	SM        int
}

// XID is a critical error of a device. The number is the driver's.
type XID struct {
	UUID   string // of the GPU
	Number uint64
	At     time.Time
}

// Code is why a call failed: the return codes of NVML that matter, under
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

// Is reports whether target is an error of the same code, so that errors.Is
// works with &Error{Code: ...}.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Call == ""
}

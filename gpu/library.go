package gpu

import (
	"fmt"
	"time"
)

// Library is the driver's management library as the poller needs it: plain types, no trace of the binding. Its methods
// and those of what it returns are called by one goroutine at a time, and only between a successful Open and Close.
// Every error is an *Error.
type Library interface {
	Open() error // loads and initialises the library
	Close()      // ends its use; Open may follow
	// DriverVersion returns the version of the driver, such as 550.54.15, CUDAVersion its newest of CUDA, such as 12.4; ""
	// with an error.
	DriverVersion() (string, error)
	CUDAVersion() (string, error)
	// DeviceCount returns how many GPUs there are, those included that may not be opened.
	DeviceCount() (int, error)
	// Device opens the GPU of an index, which may take seconds.
	Device(index int) (Device, error)
	// Watch asks for the critical errors (XID) of a device from now on.
	Watch(d Device) error
	// NextXID returns one critical error that a watched device had, without waiting; CodeTimeout when there is none.
	NextXID() (XID, error)
}

// Device is one GPU, or one MIG device of a GPU. What it is asked is named as in the column `ask` of readings.yml; a
// question that it does not know is CodeNotSupported.
type Device interface {
	// Text returns the "UUID", the "name", the "PCI bus id" as in 00000000:3B:00.0, the "compute capability" as in 9.0,
	// the "addressing mode", the "virtualization mode", the "confidential computing mode", and what Place has.
	Text(question string) (string, error)
	// Numbers returns one number at least, in the unit of the driver; NaN is unknown. Besides the questions of
	// readings.yml there are "minor number", N of /dev/nvidiaN; "memory bus width" in bits; "MIG mode" and "unit
	// counters", 1 where the device has them; and "vGPU license", whether there is one and the Unix time at which it
	// expires.
	Numbers(question string) ([]float64, error)
	// Fields reads many values in one go; each result has its own error. fields is not empty.
	Fields(fields []Field) ([]FieldResult, error)

	// MIGDevices returns the MIG devices that exist now, VGPUs the vGPUs that run on the GPU of a host, Processes the
	// compute processes.
	MIGDevices() ([]MIGDevice, error)
	VGPUs() ([]VGPU, error)
	Processes() ([]Process, error)
	// VGPUUtilization and ProcessUtilization return samples newer than the given time of the driver (microseconds),
	// CodeNotFound when there are none.
	VGPUUtilization(since uint64) ([]Sample, error)
	ProcessUtilization(since uint64) ([]Sample, error)

	// GPMSample takes a sample, to be freed.
	GPMSample() (GPMSample, error)
	// GPMMetrics computes the metrics with the given ids from two samples that are at least 100 ms apart. A metric that
	// is not there is left out.
	GPMMetrics(older, newer GPMSample, ids []int) (map[int]float64, error)
}

// GPMSample is a sample of what the units of a device did.
type GPMSample interface{ Free() }

// Field names a value by its number in NVML (NVML_FI_DEV_...), with its scope, such as the number of a link.
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

// VGPU is a vGPU that runs on a GPU, seen from its host.
type VGPU struct {
	ID int // the driver's, while the vGPU runs
	VGPUSnapshot
}

// Process is a process that has memory on a device.
type Process struct {
	PID        int
	MemoryUsed float64 // bytes; negative is unknown
}

// Sample is what a process or a vGPU used since the sample before, in percent.
type Sample struct {
	ID        int    // of the process, or VGPU.ID
	Timestamp uint64 // microseconds, the driver's
	SM        int
}

// XID is a critical error of a device. The number is the driver's.
type XID struct {
	UUID   string // of the GPU
	Number uint64
	At     time.Time
}

// Code is why a call failed: the return codes of NVML that matter, under names of our own, as the driver's own texts
// need the driver.
type Code string

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
	Call   string // the function of the library
	Code   Code
	Number int    // the return code of the library, 0 where it was not asked
	Detail string // more where more is known, such as why the library could not be loaded
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

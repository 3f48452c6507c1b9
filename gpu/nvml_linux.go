//go:build linux && cgo

package gpu

// #cgo LDFLAGS: -ldl
import "C" // with nvml_symbols_linux.c

import (
	"cmp"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// nvmlDefault is the name under which a driver installs its library.
const nvmlDefault = "libnvidia-ml.so.1"

// NVML returns the driver's library at path; "" looks for it where the system has its libraries. A process can use one
// library only: it stays loaded.
func NVML(path string) Library {
	path = cmp.Or(path, nvmlDefault)
	return &nvmlLibrary{path: path, binding: nvml.New(nvml.WithLibraryPath(path)), numbers: nvmlNumbers()}
}

type nvmlLibrary struct {
	path    string
	binding nvml.Interface
	numbers map[string]nvmlQuestion
	open    bool

	events  nvml.EventSet          // nil before the first Watch
	watched map[nvml.Device]string // the UUID, which a lost GPU no longer returns
}

func (l *nvmlLibrary) Open() error {
	const name = call("nvmlInit_v2")
	// The binding would load it too, but throws away why it cannot, and would unload it at Close, with whatever it left
	// behind in this process.
	library := dl.New(l.path, dl.RTLD_LAZY|dl.RTLD_NODELETE)
	if err := library.Open(); err != nil {
		failure := name.failure(nvml.ERROR_LIBRARY_NOT_FOUND)
		failure.Detail = err.Error()
		return failure
	}
	defer func() { _ = library.Close() }()
	if err := name.result(l.binding.Init()); err != nil {
		return err
	}
	l.open = true
	return nil
}

func (l *nvmlLibrary) Close() {
	if !l.open {
		return
	}
	l.open = false
	if l.events != nil {
		_ = l.events.Free()
		l.events, l.watched = nil, nil
	}
	_ = l.binding.Shutdown()
}

func (l *nvmlLibrary) DriverVersion() (string, error) {
	return call("nvmlSystemGetDriverVersion").text(l.binding.SystemGetDriverVersion())
}

// CUDAVersion does not ask the newer form of this call, which needs the CUDA library, and containers for monitoring
// have none.
func (l *nvmlLibrary) CUDAVersion() (string, error) {
	v, r := l.binding.SystemGetCudaDriverVersion()
	return call("nvmlSystemGetCudaDriverVersion").text(fmt.Sprintf("%d.%d", v/1000, v%1000/10), r)
}

func (l *nvmlLibrary) DeviceCount() (int, error) {
	count, r := l.binding.DeviceGetCount()
	return count, call("nvmlDeviceGetCount_v2").result(r)
}

func (l *nvmlLibrary) Device(index int) (Device, error) {
	handle, r := l.binding.DeviceGetHandleByIndex(index)
	if err := call("nvmlDeviceGetHandleByIndex_v2").result(r); err != nil {
		return nil, err
	}
	return &nvmlDevice{l, handle}, nil
}

// call is the name of a function of the library; its methods take what the binding returns for it.
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

func (c call) text(v string, r nvml.Return) (string, error) {
	if err := c.result(r); err != nil {
		return "", err
	}
	return v, nil
}

// oneOf is the name of a value; one without a name is not supported.
func oneOf[N comparable](c call, names map[N]string, v N, r nvml.Return) (string, error) {
	if r == nvml.SUCCESS && names[v] == "" {
		return "", c.unsupported()
	}
	return c.text(names[v], r)
}

// nvmlCode names a return code. The binding could name it too, but asks the driver for the name.
func nvmlCode(r nvml.Return) Code {
	return cmp.Or(map[nvml.Return]Code{
		nvml.ERROR_UNINITIALIZED:             CodeUninitialized,
		nvml.ERROR_NOT_SUPPORTED:             CodeNotSupported,
		nvml.ERROR_ARGUMENT_VERSION_MISMATCH: CodeNotSupported,
		nvml.ERROR_DEPRECATED:                CodeNotSupported,
		nvml.ERROR_NO_PERMISSION:             CodeNoPermission,
		nvml.ERROR_NOT_FOUND:                 CodeNotFound,
		nvml.ERROR_NO_DATA:                   CodeNoData,
		nvml.ERROR_TIMEOUT:                   CodeTimeout,
		nvml.ERROR_DRIVER_NOT_LOADED:         CodeDriverNotLoaded,
		nvml.ERROR_LIBRARY_NOT_FOUND:         CodeLibraryNotFound,
		nvml.ERROR_FUNCTION_NOT_FOUND:        CodeFunctionNotFound,
		nvml.ERROR_LIB_RM_VERSION_MISMATCH:   CodeVersionMismatch,
		nvml.ERROR_GPU_IS_LOST:               CodeLost,
		nvml.ERROR_GPU_NOT_FOUND:             CodeLost,
		nvml.ERROR_RESET_REQUIRED:            CodeResetRequired,
		nvml.ERROR_OPERATING_SYSTEM:          CodeOperatingSystem,
	}[r], CodeUnknown)
}

// refused reports whether a newer form of a call is not supported, so that an older one may be.
func refused(err error) bool { return hasCode(err, CodeFunctionNotFound, CodeNotSupported) }

func (l *nvmlLibrary) Watch(d Device) error {
	const name = call("nvmlDeviceRegisterEvents")
	device, ok := d.(*nvmlDevice)
	if !ok {
		return name.unsupported()
	}
	if _, watched := l.watched[device.handle]; watched {
		return nil
	}
	types, r := device.handle.GetSupportedEventTypes()
	if err := call("nvmlDeviceGetSupportedEventTypes").result(r); err != nil {
		return err
	}
	if types&nvml.EventTypeXidCriticalError == 0 {
		return name.unsupported()
	}
	uuid, err := device.Text("UUID")
	if err != nil {
		return err
	}
	if l.events == nil { // all devices share it
		events, r := l.binding.EventSetCreate()
		if err := call("nvmlEventSetCreate").result(r); err != nil {
			return err
		}
		l.events, l.watched = events, make(map[nvml.Device]string)
	}
	if err := name.result(device.handle.RegisterEvents(nvml.EventTypeXidCriticalError, l.events)); err != nil {
		return err
	}
	l.watched[device.handle] = uuid
	return nil
}

func (l *nvmlLibrary) NextXID() (XID, error) {
	const name = call("nvmlEventSetWait_v2")
	if l.events == nil {
		return XID{}, name.failure(nvml.ERROR_TIMEOUT)
	}
	// What a wait of 0 ms means is not documented.
	event, r := l.events.Wait(1)
	if err := name.result(r); err != nil {
		return XID{}, err
	}
	return XID{UUID: l.watched[event.Device], Number: event.EventData, At: time.Now()}, nil
}

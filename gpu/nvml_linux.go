//go:build linux && cgo

package gpu

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	// Without it a function that the driver does not have ends the process.
	_ "github.com/inference-exporter/inference_exporter/gpu/internal/nvmlsymbols"
)

// nvmlDefault is the name under which a driver installs its library.
const nvmlDefault = "libnvidia-ml.so.1"

// NVML returns the driver's library at path; "" looks for it where the system
// has its libraries. A process can use one library only: it stays loaded.
func NVML(path string) Library {
	if path == "" {
		path = nvmlDefault
	}
	return &nvmlLibrary{path: path, binding: nvml.New(nvml.WithLibraryPath(path))}
}

type nvmlLibrary struct {
	path    string
	binding nvml.Interface
	open    bool

	events  nvml.EventSet          // nil before the first Watch
	watched map[nvml.Device]string // the UUID, as a lost GPU tells it no more
}

func (l *nvmlLibrary) Open() error {
	const name = call("nvmlInit_v2")
	// The binding would load it too, but throws away why it cannot, and would
	// unload it at Close, with whatever it left behind in this process.
	library := dl.New(l.path, dl.RTLD_LAZY|dl.RTLD_NODELETE)
	if err := library.Open(); err != nil {
		failure := name.failure(nvml.ERROR_LIBRARY_NOT_FOUND)
		failure.Detail = bounded(err.Error())
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

// CUDAVersion does not ask the newer form of this call, which needs the CUDA
// library, and containers for monitoring have none.
func (l *nvmlLibrary) CUDAVersion() (string, error) {
	v, err := call("nvmlSystemGetCudaDriverVersion").number(l.binding.SystemGetCudaDriverVersion())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10), nil
}

func (l *nvmlLibrary) DeviceCount() (int, error) {
	return call("nvmlDeviceGetCount_v2").number(l.binding.DeviceGetCount())
}

func (l *nvmlLibrary) Device(index int) (Device, error) {
	handle, r := l.binding.DeviceGetHandleByIndex(index)
	if err := call("nvmlDeviceGetHandleByIndex_v2").result(r); err != nil {
		return nil, err
	}
	return &nvmlDevice{binding: l.binding, handle: handle}, nil
}

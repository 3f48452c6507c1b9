//go:build !(linux && cgo)

package gpu

// NVML returns a library that is not there: this program was built without it.
// Open returns CodeNotBuilt.
func NVML(string) Library { return notBuilt{} }

type notBuilt struct{}

func (notBuilt) Open() error                    { return errNotBuilt() }
func (notBuilt) Close()                         {}
func (notBuilt) DriverVersion() (string, error) { return "", errNotBuilt() }
func (notBuilt) CUDAVersion() (string, error)   { return "", errNotBuilt() }
func (notBuilt) DeviceCount() (int, error)      { return 0, errNotBuilt() }
func (notBuilt) Device(int) (Device, error)     { return nil, errNotBuilt() }
func (notBuilt) Watch(Device) error             { return errNotBuilt() }
func (notBuilt) NextXID() (XID, error)          { return XID{}, errNotBuilt() }

func errNotBuilt() error { return &Error{Call: "nvmlInit_v2", Code: CodeNotBuilt} }

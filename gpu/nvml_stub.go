//go:build !(linux && cgo)

package gpu

// NVML returns a library that is not there: this program was built without it. Open returns CodeNotBuilt.
func NVML(string) Library { return notBuilt{} }

type notBuilt struct{ Library } // none, as it does not open

func (notBuilt) Open() error { return &Error{Call: "nvmlInit_v2", Code: CodeNotBuilt} }
func (notBuilt) Close()      {}

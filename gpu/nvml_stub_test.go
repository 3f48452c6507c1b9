//go:build !(linux && cgo)

package gpu

import (
	"errors"
	"testing"
)

func TestNVMLNotBuilt(t *testing.T) {
	l := NVML("")
	defer l.Close()
	if err := l.Open(); !errors.Is(err, &Error{Code: CodeNotBuilt}) {
		t.Errorf("Open() = %v, want %s", err, CodeNotBuilt)
	}
}

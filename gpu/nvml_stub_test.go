//go:build !(linux && cgo)

package gpu

import "testing"

func TestNVMLNotBuilt(t *testing.T) {
	l := NVML("")
	defer l.Close()
	if err := l.Open(); !hasCode(err, CodeNotBuilt) {
		t.Errorf("Open() = %v, want %s", err, CodeNotBuilt)
	}
}

package fakenvml

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// State is what a library tells.
type State map[string]string

// Write replaces the file at path at once, so that no call sees half of it.
func (s State) Write(tb testing.TB, path string) {
	tb.Helper()
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&text, "%s %s\n", key, s[key])
	}
	file, err := os.CreateTemp(filepath.Dir(path), "state")
	if err != nil {
		tb.Fatal(err)
	}
	_, err = file.WriteString(text.String())
	if err := errors.Join(err, file.Close()); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		tb.Fatal(err)
	}
}

// Machine is a machine with GPUs that answer every call. The values are made
// up; those of GPU number n differ from the others in their identity alone.
func Machine(gpus int) State {
	s := State{
		"driver_version": "550.54.15",
		"cuda_version":   "12040",
		"devices":        fmt.Sprint(gpus),
	}
	for n := range gpus {
		device := fmt.Sprintf("device%d.", n)
		for key, value := range gpu {
			s[device+key] = value
		}
		s[device+"uuid"] = fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", n)
		s[device+"serial"] = fmt.Sprintf("165000000000%d", n)
		s[device+"pci_bus_id"] = fmt.Sprintf("00000000:%02X:00.0", 0x3b+n)
		s[device+"minor"] = fmt.Sprint(n)
	}
	return s
}

//go:build unix

package foreign

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe to which nobody writes is refused, and not waited for.
func TestPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(name, 8); err == nil || err.Error() != "read "+name+": not a regular file" {
		t.Errorf("error %v", err)
	}
}

package testlab

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Sysfs makes a sysfs of recorded AMD GPUs in a new directory, with the links that the kernel
// makes. The files are those of gpu/amd/testdata.
func Sysfs(t testing.TB, files ...string) string {
	t.Helper()
	sys := t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(file)
		device := filepath.Join(sys, "devices", strings.TrimSuffix(base, ".txt"))
		for _, part := range strings.Split(string(text), "\n-- ")[1:] {
			name, content, _ := strings.Cut(part, " --\n")
			card, name, _ := strings.Cut(name, "/device/")
			WriteFile(t, filepath.Join(device, name), fromText(t, name, content))
			link := filepath.Join(sys, "class", "drm", card+number(base), "device")
			if _, err := os.Lstat(link); err != nil {
				symlink(t, device, link)
				symlink(t, device, filepath.Join(sys, "bus/pci/devices", filepath.Base(device)))
			}
		}
	}
	WriteFile(t, filepath.Join(sys, "module/amdgpu/version"), []byte("6.12.12\n"))
	return sys
}

// number makes the names of cards of several files differ.
func number(file string) string { return fmt.Sprint(len(file)) }

func fromText(t testing.TB, name, content string) []byte {
	t.Helper()
	if name != "gpu_metrics" {
		return []byte(content)
	}
	data, err := hex.DecodeString(strings.ReplaceAll(content, "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// WriteFile writes a file and makes the directories that it is in.
func WriteFile(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func symlink(t testing.TB, target, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

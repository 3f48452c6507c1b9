package pods

import (
	"strconv"
	"strings"
	"testing"
)

const (
	gpuA = "GPU-8f6ee2b5-9e5c-4b0c-8a3f-0d1a6cf11d2a"
	gpuB = "GPU-11111111-2222-3333-4444-555555555555"
	migA = "MIG-6f0ac9e1-3b0f-5d3c-9a54-1f4f2f2d6a10"
)

func TestParseID(t *testing.T) {
	for _, tt := range []struct {
		id   string
		want device
	}{
		{gpuA, device{gpuA, -1, -1, -1}},
		{migA, device{migA, -1, -1, -1}},
		// Shared in time, or by MPS.
		{gpuA + "::0", device{gpuA, -1, -1, -1}},
		{gpuA + "::11", device{gpuA, -1, -1, -1}},
		{migA + "::3", device{migA, -1, -1, -1}},
		// GKE.
		{"nvidia0", device{"", 0, -1, -1}},
		{"nvidia15", device{"", 15, -1, -1}},
		{"nvidia0/gi1", device{"", 0, 1, -1}},
		{"nvidia3/gi13", device{"", 3, 13, -1}},
		{"nvidia0/vgpu0", device{"", 0, -1, -1}},
		{"nvidia2/gi1/vgpu7", device{"", 2, 1, -1}},
		{"nvidia0::1", device{"", 0, -1, -1}},
		// Drivers before R470.
		{"MIG-" + gpuA + "/7/0", device{gpuA, -1, 7, 0}},
		{"MIG-" + gpuA + "/1/2::4", device{gpuA, -1, 1, 2}},
	} {
		if got, ok := parseID(tt.id); !ok || got != tt.want {
			t.Errorf("parseID(%q) = %v, %v, want %v", tt.id, got, ok, tt.want)
		}
	}
	for _, id := range []string{
		"", "::", "::0", "0", "tegra", "vfio0", "nvidia", "nvidia-1", "nvidia0/", "nvidia0/gi", "nvidia0/ci1", "nvidia00",
		"nvidia123456", "nvidia99999999999999999999", "nvidia0/gi1/gi2", "xnvidia0", "nvidia0\n",
		"GPU-", "gpu-8f6ee2b5-9e5c-4b0c-8a3f-0d1a6cf11d2a", gpuA + "0", gpuA[:len(gpuA)-1], gpuA + "::", gpuA + "::a", gpuA + "\n",
		"GPU-8f6ee2b59e5c4b0c8a3f0d1a6cf11d2a", "GPU-8f6ee2b5-9e5c-4b0c-8a3f-0d1a6cf11d2g",
		"MIG-" + gpuA, "MIG-" + gpuA + "/1", "MIG-" + gpuA + "/1/2/3", "MIG-" + migA + "/1/2",
		gpuA + "::" + strings.Repeat("0", 200),
	} {
		if got, ok := parseID(id); ok {
			t.Errorf("parseID(%q) = %v, want nothing", id, got)
		}
	}
}

// An id names a GPU in exactly one way, is short, and means the same when it is
// written anew from what was read, alone or as one of several of a shared GPU.
func FuzzParseID(f *testing.F) {
	for _, id := range []string{
		gpuA, migA, gpuA + "::1", "nvidia0", "nvidia1/gi2", "nvidia1/gi2/vgpu3", "nvidia1/vgpu3", "MIG-" + gpuA + "/1/0", "::", "nvidia0/gi00",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		d, ok := parseID(id)
		if !ok {
			if d != (device{}) {
				t.Fatalf("parseID(%q) = %v and not ok", id, d)
			}
			return
		}
		if len(id) > maxIDBytes || (d.uuid == "") == (d.minor < 0) || d.computeInstance >= 0 && d.gpuInstance < 0 {
			t.Fatalf("parseID(%q) = %v", id, d)
		}
		anew := d.uuid
		switch {
		case d.computeInstance >= 0:
			anew = "MIG-" + d.uuid + "/" + strconv.Itoa(d.gpuInstance) + "/" + strconv.Itoa(d.computeInstance)
		case d.gpuInstance >= 0:
			anew = "nvidia" + strconv.Itoa(d.minor) + "/gi" + strconv.Itoa(d.gpuInstance)
		case d.uuid == "":
			anew = "nvidia" + strconv.Itoa(d.minor)
		}
		for _, same := range []string{anew, anew + "::7"} {
			if got, ok := parseID(same); !ok || got != d {
				t.Fatalf("parseID(%q) = %v, but parseID(%q) = %v, %v", id, d, same, got, ok)
			}
		}
		if !strings.HasPrefix(id, anew) {
			t.Fatalf("parseID(%q) = %v, which is %q", id, d, anew)
		}
	})
}

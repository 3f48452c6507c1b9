//go:build linux

package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// On a machine with cards of AMD alone they are read, and the missing driver of NVIDIA is
// no failure, even for an exporter that only reads GPUs.
func TestAMDAlone(t *testing.T) {
	t.Parallel()
	sys := t.TempDir()
	device := filepath.Join(sys, "devices/0000:03:00.0")
	for name, content := range map[string]string{
		"vendor": "0x1002", "device": "0x744c", "revision": "0xc8", "class": "0x030000", "unique_id": "3b1c5d0fe8a7a5b2",
		"uevent": "DRIVER=amdgpu\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0", "gpu_busy_percent": "50",
	} {
		if err := os.MkdirAll(device, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(device, name), []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"class/drm/card1/device", "bus/pci/devices/0000:03:00.0"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(sys, link)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(device, filepath.Join(sys, link)); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--no-collector.server", "--gpu.sysfs="+sys)
	const utilization = `inference_gpu_utilization_ratio{gpu="0",host="",uuid="GPU-3b1c5d0fe8a7a5b2",vendor="amd"} 0.5`
	_, text := p.waitFor(utilization, func(got metricsPage) bool { return got.Sum("inference_gpu_utilization_ratio") == 0.5 })
	page := string(text)
	for _, want := range []string{
		utilization,
		`inference_gpu_up{source="amdgpu"} 1`,
		`inference_gpu_devices{source="amdgpu"} 1`,
		`inference_gpu_memory_bandwidth_bytes_per_second{gpu="0",host="",source="table",uuid="GPU-3b1c5d0fe8a7a5b2",vendor="amd"} 9.6e+11`,
	} {
		if !strings.Contains(page, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(page, `inference_gpu_up{source="nvml"}`) {
		t.Error("the missing driver of NVIDIA counts as a failure")
	}
}

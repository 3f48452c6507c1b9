package collector

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/gpu"
)

// A vGPU has what its host knows of it, and nothing else.
func TestVGPUs(t *testing.T) {
	device := gpu.DeviceSnapshot{Vendor: gpu.NVIDIA, UUID: "GPU-host", Index: 1, Up: true, VGPUs: []gpu.VGPUSnapshot{
		{UUID: "a1b2", VM: "vm-7", Profile: "NVIDIA L40S-16Q", MemoryUsed: 12e9, SMUtilization: 0.75},
		{UUID: "c3d4", MemoryUsed: -1, SMUtilization: -1},
	}}
	samples := slices.DeleteFunc(gpuSamples(t, gpuUp(device)), func(s string) bool { return !strings.HasPrefix(s, "inference_gpu_vgpu_") })
	want := []string{
		`inference_gpu_vgpu_info{gpu="1",host="",uuid="GPU-host",vendor="nvidia",vgpu_profile="",vgpu_uuid="c3d4",vm=""} 1`,
		`inference_gpu_vgpu_info{gpu="1",host="",uuid="GPU-host",vendor="nvidia",vgpu_profile="NVIDIA L40S-16Q",vgpu_uuid="a1b2",vm="vm-7"} 1`,
		`inference_gpu_vgpu_memory_used_bytes{gpu="1",host="",uuid="GPU-host",vendor="nvidia",vgpu_uuid="a1b2"} 1.2e+10`,
		`inference_gpu_vgpu_sm_utilization_ratio{gpu="1",host="",uuid="GPU-host",vendor="nvidia",vgpu_uuid="a1b2"} 0.75`,
	}
	slices.Sort(samples)
	if diff := cmp.Diff(want, samples); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

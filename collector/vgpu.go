package collector

import (
	dto "github.com/prometheus/client_model/go"

	"github.com/inference-exporter/inference_exporter/gpu"
)

// vgpuFamilies are what is known of the vGPUs that run on the GPUs of a host.
type vgpuFamilies struct {
	vgpuInfo, vgpuMemory, vgpuSM *gpuFamily
}

func newVGPUFamilies() vgpuFamilies {
	return vgpuFamilies{
		vgpuInfo: newGPUFamily(Family{
			Name: "vgpu_info", Type: Gauge, Labels: deviceLabels("vgpu_uuid", "vgpu_profile", "vm"),
			Help: "Always 1. Identifies a vGPU that runs on a GPU of this host: its profile, and the virtual machine as the hypervisor names it.",
		}),
		vgpuMemory: newGPUFamily(Family{
			Name: "vgpu_memory_used_bytes", Type: Gauge, Unit: "bytes", Labels: deviceLabels("vgpu_uuid"),
			Help: "GPU memory that a vGPU uses, on its host.",
		}),
		vgpuSM: newGPUFamily(Family{
			Name: "vgpu_sm_utilization_ratio", Type: Gauge, Unit: "ratio", Labels: deviceLabels("vgpu_uuid"),
			Help: "Ratio of time in which kernels of a vGPU were running, as last sampled on its host. Absent while there is no new sample.",
		}),
	}
}

// sendVGPUs sends what is known of the vGPUs of a GPU.
func (d *vgpuFamilies) sendVGPUs(out *gpuMetrics, vgpus []gpu.VGPUSnapshot, base []*dto.LabelPair) {
	for _, v := range vgpus {
		labels := append(base, label("vgpu_uuid", v.UUID))
		d.vgpuInfo.send(out, 1, append(labels, label("vgpu_profile", v.Profile), label("vm", v.VM))...)
		if v.MemoryUsed >= 0 {
			d.vgpuMemory.send(out, v.MemoryUsed, labels...)
		}
		if v.SMUtilization >= 0 {
			d.vgpuSM.send(out, v.SMUtilization, labels...)
		}
	}
}

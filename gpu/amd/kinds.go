package amd

import "github.com/inference-exporter/inference_exporter/gpu"

// Files returns what each kind of reading is read from, below the directory of the device,
// for the documentation.
func Files() map[gpu.Kind]string {
	return map[gpu.Kind]string{
		gpu.MemoryTotal: "mem_info_vram_total, mem_info_gtt_total", gpu.MemoryUsed: "mem_info_vram_used, mem_info_gtt_used",
		gpu.MemoryFree: "mem_info_vram_total, mem_info_vram_used", gpu.Utilization: "gpu_busy_percent", gpu.MemoryUtilization: "mem_busy_percent",
		gpu.Clock: "hwmon freq*_input, pp_dpm_*", gpu.ClockMax: "pp_dpm_sclk, pp_dpm_mclk", gpu.ClockEventActive: "gpu_metrics",
		gpu.Power: "hwmon power1_average, power1_input", gpu.PowerLimit: "hwmon power1_cap", gpu.Energy: "hwmon energy1_input, gpu_metrics",
		gpu.Temperature: "hwmon temp*_input", gpu.FanSpeed: "hwmon pwm1",
		gpu.PCIeLinkGeneration: "current_link_speed", gpu.PCIeLinkGenerationMax: "max_link_speed",
		gpu.PCIeLinkWidth: "current_link_width", gpu.PCIeLinkWidthMax: "max_link_width", gpu.PCIeReplays: "pcie_replay_count",
		gpu.XGMITransmit: "gpu_metrics", gpu.XGMIReceive: "gpu_metrics", gpu.XGMIErrors: "ras/xgmi_wafl_err_count",
		gpu.ECCErrors: "ras/*_err_count",
	}
}

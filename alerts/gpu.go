package alerts

import "fmt"

// The XID errors that ask for a look at the hardware, and those that were
// contained to the program that met them.
const (
	severeXIDs    = "48|62|64|74|79|95|119|120"
	containedXIDs = "94"
)

// gpuGroup has the GPUs of the machines that exporters run on. Series differ
// between kinds of GPU: what is absent is unknown and no alert.
func gpuGroup() Group {
	return Group{Name: "inference-gpu", Interval: "30s", Rules: rules(
		gpuXID(Critical, severeXIDs, "Work on the GPU has failed or soon will."),
		gpuXID(Warning, containedXIDs, "The error was contained: only the program that was affected has ended."),
		gpuECCUncorrectable(),
		gpuRowRemapFailure(),
		gpuRowRemapPending(),
		gpuFabricUnhealthy(),
		gpuThrottled(),
		gpuMemoryNearlyFull(),
		gpuLost(),
		gpuDriverStuck(Critical, `state="stuck"`, "2m"),
		gpuDriverStuck(Warning, `state!~"up|starting|lost|stuck"`, "10m"),
		gpuPageUnreadable(),
	)}
}

// gpuXID uses the time of the last error, which shows the first one too.
func gpuXID(severity Severity, xids, meaning string) alert {
	return alert{
		name: "InferenceGPUXID", severity: severity, category: GPU,
		expr:    fmt.Sprintf(`time() - inference_gpu_xid_last_timestamp_seconds{xid=~"%s"} < 900`, xids),
		summary: "GPU {{ $labels.gpu }} of {{ or $labels.host $labels.instance }} reported XID {{ $labels.xid }}, {{ $value | humanizeDuration }} ago.",
		description: "The driver or the page of another exporter reported a critical error in the last 15 minutes. " + meaning + " " +
			"Look first at the kernel log of the machine, and at inference_gpu_recovery_action for what the driver recommends.",
		board: gpuBoard,
	}
}

func gpuECCUncorrectable() alert {
	return alert{
		name: "InferenceGPUECCUncorrectable", severity: Critical, category: GPU,
		expr:    `sum by (job, instance, vendor, host, uuid, gpu) (increase(inference_gpu_ecc_errors_total{severity="uncorrected"}[10m])) > 0`,
		keep:    "15m",
		summary: `GPU {{ $labels.gpu }} of {{ or $labels.host $labels.instance }} had {{ $value | printf "%.0f" }} uncorrected memory errors in 10 minutes.`,
		description: "An uncorrected memory error ends the program that reads the memory, such as a server. " +
			"Look first at row remapping on the board: if a row waits to be replaced, a reset of the GPU replaces it.",
		board: gpuBoard,
	}
}

func gpuRowRemapFailure() alert {
	return alert{
		name: "InferenceGPURowRemapFailure", severity: Critical, category: GPU,
		expr:    "inference_gpu_row_remap_failure == 1",
		summary: "GPU {{ $labels.gpu }} of {{ or $labels.host $labels.instance }} has no spare row for its broken memory.",
		description: "A row of the memory could not be replaced, and errors will occur again. " +
			"Take the GPU out of service and have it replaced; look first at which servers run on it.",
		board: gpuBoard,
	}
}

func gpuRowRemapPending() alert {
	return alert{
		name: "InferenceGPURowRemapPending", severity: Warning, category: GPU,
		expr:    "inference_gpu_row_remap_pending == 1",
		summary: "GPU {{ $labels.gpu }} of {{ or $labels.host $labels.instance }} needs a reset to replace a row of its memory.",
		description: "A broken row is replaced by a spare one at the next reset of the GPU. Until then the error may occur again. " +
			"Look first for a time at which the servers on it can be drained.",
		board: gpuBoard,
	}
}

// gpuFabricUnhealthy is of GPUs that have joined the fabric: before that there
// is no verdict.
func gpuFabricUnhealthy() alert {
	return alert{
		name: "InferenceGPUFabricUnhealthy", severity: Critical, category: GPU,
		expr:    "inference_gpu_fabric_healthy == 0",
		lasting: "2m",
		summary: "GPU {{ $labels.gpu }} of {{ or $labels.host $labels.instance }} has a fault in the NVLink fabric.",
		description: "The GPU joined the NVLink fabric with an error, or the driver reports a fault there. Servers that use several GPUs fail, do not start, or are slow. " +
			"Look first at the log of the fabric manager and at whether the other GPUs of the machine have it too.",
		board: gpuBoard,
	}
}

// gpuThrottled uses the time that the driver counts, where it does. Its own
// power cap under full load is normal.
func gpuThrottled() alert {
	return alert{
		name: "InferenceGPUThrottled", severity: Warning, category: GPU,
		expr: `(
  rate(inference_gpu_clock_event_seconds_total{reason=~"sw_thermal|hw_thermal|hw_power_brake"}[10m])
  or
  avg_over_time(inference_gpu_clock_event_active{reason=~"sw_thermal|hw_thermal|hw_power_brake"}[10m])
) > 0.5`,
		lasting: "5m",
		summary: "GPU {{ $labels.gpu }} of {{ or $labels.host $labels.instance }} is slowed down {{ $value | humanizePercentage }} of the time ({{ $labels.reason }}).",
		description: "Heat or the power supply keeps the clocks down for more than half of the last 10 minutes, so that every token on this GPU comes later. " +
			"Look first at temperature and fans against those of its neighbours.",
		board: gpuBoard,
	}
}

// gpuMemoryNearlyFull asks for growth, since servers take nearly all memory at
// their start.
func gpuMemoryNearlyFull() alert {
	return alert{
		name: "InferenceGPUMemoryNearlyFull", severity: Warning, category: GPU,
		expr: `inference_gpu_memory_free_bytes < 512 * 1024 * 1024
and on (job, instance, vendor, host, uuid, gpu)
inference_gpu_memory_used_bytes - inference_gpu_memory_used_bytes offset 1h > 64 * 1024 * 1024`,
		lasting: "10m",
		summary: "GPU {{ $labels.gpu }} of {{ or $labels.host $labels.instance }} has {{ $value | humanize1024 }}B of memory left and uses more by the hour.",
		description: "Servers take their memory at the start, so that growth comes from a leak or another program, and the next request for memory may fail and end a server. " +
			"Look first at the memory by process, or at nvidia-smi on the machine.",
		board: gpuBoard,
	}
}

// gpuLost names the GPU where the driver still counts it, and else fires
// where there are fewer than before, or none. The pages of neuron-monitor and of the
// TPU device plugin show what is in use, which comes and goes.
func gpuLost() alert {
	return alert{
		name: "InferenceGPULost", severity: Critical, category: GPU,
		expr: `inference_gpu_device_up == 0
and on (job, instance, source)
inference_gpu_up == 1
or
(
  inference_gpu_devices < max_over_time(inference_gpu_devices[6h])
  and on (job, instance, source)
  inference_gpu_up == 1
  unless on (job, instance, source)
  inference_gpu_device_up == 0
)
or
inference_gpu_state{state="lost"} == 1
or
inference_gpu_page_devices{software!~"neuron-monitor|gke-tpu"} < max_over_time(inference_gpu_page_devices[6h])`,
		lasting: "5m",
		summary: "{{ with $labels.gpu }}GPU {{ . }}{{ else }}A GPU{{ end }} of {{ or $labels.host $labels.server $labels.instance }} is lost.",
		description: "A GPU that was there no longer answers, or is no longer counted by the driver or shown on the page of another exporter. Servers on it have ended or hang. " +
			"Look first at the kernel log for XID 79; a reboot of the machine brings it back, or shows that it is broken.",
		board: gpuBoard,
	}
}

// gpuDriverStuck leaves pages that cannot be read to gpuPageUnreadable.
func gpuDriverStuck(severity Severity, state, lasting string) alert {
	return alert{
		name: "InferenceGPUDriverStuck", severity: severity, category: GPU,
		expr: fmt.Sprintf(`inference_gpu_state{%s} == 1
and on (job, instance, source)
inference_gpu_up == 0
unless on (job, instance, source)
inference_gpu_page_up == 0`, state),
		lasting: lasting,
		summary: "The GPUs of {{ $labels.instance }} are not read by {{ $labels.source }}: {{ $labels.state }}.",
		description: "The driver has returned no readings since (the label state says why), so that other alerts on these GPUs are silent. A driver that is stuck often hangs the servers too. " +
			"Look first at whether nvidia-smi returns on the machine, and at its kernel log.",
		board: gpuBoard,
	}
}

func gpuPageUnreadable() alert {
	return alert{
		name: "InferenceGPUPageUnreadable", severity: Warning, category: GPU,
		expr:    "inference_gpu_page_up == 0",
		lasting: "10m",
		summary: "The page of GPUs of {{ $labels.server }} cannot be read by {{ $labels.instance }} ({{ $labels.source }}).",
		description: "The exporter of GPUs on that host has not answered with a page that can be read for 10 minutes, so that other alerts on the GPUs of that host are silent. " +
			"Look first at the reasons in inference_gpu_page_failures_total, and at whether that exporter runs.",
		board: gpuBoard,
	}
}

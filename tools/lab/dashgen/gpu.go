package main

import "slices"

// card names a series of one GPU.
const card = "{{machine}} {{vendor}} {{gpu}}"

// byCard groups the readings of GPUs.
const byCard = "instance, host, vendor, gpu"

// inMachine gives the series of an expression, which has the labels of byCard, the
// label machine: the host that an exporter names, which it does not for its own
// GPUs, else its own one without the port.
func inMachine(expr string) string {
	return `label_replace(label_replace(` + expr + `, "machine", "$1", "instance", "(.+?)(:[0-9]+)?"), "machine", "$1", "host", "(.+)")`
}

func gpuBoard() Board {
	return Board{
		UID: uidGPU, Title: "Inference / GPU",
		Question:  "Is a card faulty, gone or slowed down, and is it bound by compute or by bandwidth?",
		Variables: []Variable{datasourceVariable(), jobVariable(), machineVariable(), gpuVariable()},
		Marks:     []Mark{gpuAlertMark()},
		From:      "now-3h",
		Rows: []Row{
			{Panels: gpuNow()},
			{Title: "Errors", Panels: gpuErrors()},
			{Title: "What slows it down", Panels: gpuSlow()},
			{Title: "Driver", Collapsed: true, Panels: gpuDriver()},
			{Title: "Use", Collapsed: true, Panels: append(gpuUse(), gpuWork()...)},
			{Title: "Links", Collapsed: true, Panels: gpuLinks()},
			{Title: "Parts and programs", Collapsed: true, Panels: gpuParts()},
		},
	}
}

// gpuGauge is a reading of each GPU.
func gpuGauge(name string, matchers ...string) string {
	return inMachine("max by (" + byCard + ") (" + ofGPU.of(name, matchers...) + ")")
}

// gpuRate is the rate of a counter of each GPU.
func gpuRate(name string, matchers ...string) string {
	return inMachine("sum by (" + byCard + ") (rate(" + ofGPU.of(name, matchers...) + "[5m]))")
}

// gpuWorst keeps the n series of a gauge, by card and another label, that are
// highest over the time range.
func gpuWorst(n int, label, expr, choice string) string {
	return inMachine(worst(n, byCard+", "+label, expr, choice))
}

func gpuNow() []Panel {
	return []Panel{
		{
			Title: "GPUs", Viz: Stat, Width: 24, Height: 3,
			What: "GPUs that answer, GPUs that do not, and sources, a driver or pages of other exporters, that are not read. Rows that are closed are not queried until they are opened.", By: ByDriver,
			Worry: "any does not answer.", Alerts: []string{"InferenceGPULost", "InferenceGPUDriverStuck", "InferenceGPUPageUnreadable"},
			Queries: []Query{
				{Expr: "sum(" + gpuGauge("inference_gpu_device_up") + ")", Legend: "answer"},
				{Expr: "sum(" + gpuGauge("inference_gpu_device_up") + " == bool 0)", Legend: "do not answer", Steps: []Step{{1, "red"}}},
				{Expr: "sum(max by (instance, source) (" + ofMachine.of("inference_gpu_up") + ") == bool 0)", Legend: "sources that are not read", Steps: []Step{{1, "red"}}},
			},
			NoValue: noGPU + ": start an exporter on a machine with GPUs with --collector.gpu",
		},
		{
			Title: "Cards", Viz: Table, Width: 24, Height: 9,
			What: "Each GPU as it is now: whether it answers, its product and driver, temperature, power and memory in use, when its latest critical error (XID) was, and what the driver asks for.", By: ByDriver,
			Worry: "one does not answer, has an XID of today, or the driver asks for anything.", Alerts: []string{"InferenceGPULost", "InferenceGPUXID", "InferenceGPURecoveryAction"},
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_device_up") + " == bool 0"},
				{Expr: gpuGauge("inference_gpu_temperature_celsius", `sensor="gpu"`)},
				{Expr: gpuGauge("inference_gpu_power_watts")},
				{Expr: gpuGauge("inference_gpu_memory_used_bytes")},
				{Expr: "1000 * " + gpuGauge("inference_gpu_xid_last_timestamp_seconds")},
				{Expr: gpuGauge("inference_gpu_recovery_action")},
				{Expr: inMachine("max by (" + byCard + ", name, driver_version) (" + ofGPU.of("inference_gpu_info") + ")")},
			},
			Columns: []Column{
				{Label: "machine", Title: "Machine"},
				{Label: "vendor", Title: "Vendor", Width: 95},
				{Label: "gpu", Title: "GPU", Width: 75},
				{Query: 0, Title: "Answers", States: []State{{"1", "no", "red"}, {"0", "yes", "green"}}},
				{Label: "name", Title: "Product"},
				{Label: "driver_version", Title: "Driver", Width: 110},
				{Query: 1, Title: "Chip", Unit: "celsius"},
				{Query: 2, Title: "Power", Unit: "watt"},
				{Query: 3, Title: "Memory", Unit: "bytes"},
				{Query: 4, Title: "Latest XID", Unit: "dateTimeFromNow", Width: 150},
				{Query: 5, Title: "Asks for", Width: 120, States: recoveryStates},
			},
			Sort: []Order{{Title: "Answers", Desc: true}, {Title: "Latest XID", Desc: true}}, NoValue: noGPU,
		},
	}
}

func gpuDriver() []Panel {
	const rows = 10
	up := ofMachine.of("inference_gpu_up")
	return []Panel{
		{
			Title: "GPUs here, and at most in 6 hours", Viz: TimeSeries, Unit: "none", Width: 12, Height: 8,
			What: "GPUs that the driver of each machine counts, and the most that it counted in 6 hours.", By: ByDriver,
			Worry: "the lines differ: a card fell off the bus.", Alerts: []string{"InferenceGPULost"},
			Queries: []Query{
				{Expr: "max by (instance, source) (" + ofMachine.of("inference_gpu_devices") + ")", Legend: "now {{instance}} {{source}}"},
				{Expr: "max by (instance, source) (max_over_time(" + ofMachine.of("inference_gpu_devices") + "[6h]))", Legend: "at most {{instance}} {{source}}", Reference: true},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
		{
			Title: "State of the driver", Viz: StateTimeline, Width: 12, Height: 8, MaxRows: rows,
			What: "Whether the GPUs of each machine are read; the ten machines that failed most in the time range.", By: ByDriver,
			Worry: "it is failed on a machine with GPUs. The metric inference_gpu_state has the reason.", Alerts: []string{"InferenceGPUDriverStuck"},
			Queries: []Query{{Expr: worst(rows, "instance, source", "max by (instance, source) ("+up+")", "1 - avg_over_time("+up+"[$__range] @ end())"), Legend: "{{instance}} {{source}}"}},
			States:  upStates, NoValue: noGPU,
		},
	}
}

// noGPU is shown where no GPU is read.
const noGPU = "no GPU is read here"

// recoveryStates are the values of inference_gpu_recovery_action.
var recoveryStates = []State{
	{"0", "nothing", "green"},
	{"1", "reset", "red"},
	{"2", "reboot", "red"},
	{"3", "drain P2P", "yellow"},
	{"4", "drain and reset", "red"},
	{"5", "recover IMEX", "red"},
	{"6", "bus reset", "red"},
	{"7", "reboot", "red"},
}

// eventStates are those of a query that is 1 while something is the case.
var eventStates = []State{{"0", "no", "transparent"}, {"1", "yes", "red"}}

func gpuErrors() []Panel {
	const rows = 10
	xids := ofGPU.of("inference_gpu_xid_last_timestamp_seconds")
	return []Panel{
		{
			Title: "Critical errors (XID)", Viz: StateTimeline, Width: 8, Height: 8, MaxRows: rows,
			What: "XIDs that the driver reported, each for 10 minutes after its latest error; the ten latest.", By: ByDriver,
			Worry: "one appears; 13, 31 and 43 are mostly faults of a program, and 144 to 150 are harmless or fatal by their sub-code.", Alerts: []string{"InferenceGPUXID"},
			Queries: []Query{{Expr: gpuWorst(rows, "xid", "((time() - max by ("+byCard+", xid) ("+xids+")) < bool 600)", "last_over_time("+xids+"[$__range] @ end())"), Legend: card + " XID {{xid}}"}},
			States:  eventStates, NoValue: "no XID since the exporter started",
		},
		{
			Title: "Memory errors an hour", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8,
			What: "Errors of the memory that ECC corrected, and those that it could not. Cards without any are left out.", By: ByDriver,
			Worry: "any is uncorrected: it ended the program that met it. Corrected ones rise.", Alerts: []string{"InferenceGPUECCUncorrectable", "InferenceGPUECCCorrected"},
			Queries: []Query{{Expr: inMachine("sum by (" + byCard + ", severity) (increase(" + ofGPU.of("inference_gpu_ecc_errors_total") + "[1h])) > 0"), Legend: card + " {{severity}}"}},
			Min:     ptr(0.0), NoValue: "none, if the cards have ECC",
		},
		{
			Title: "Repair and replacement", Viz: Table, Width: 8, Height: 8,
			What: "Rows of the memory that spare ones replaced after uncorrectable errors; whether one waits for a reset, or a repair of the chip does; whether one could not be replaced, memory cannot be repaired or the caches had more errors than the field diagnostic allows; and banks of the memory without spare rows.", By: ByDriver,
			Worry: "something is pending (plan a reset), or the card is to be exchanged.", Alerts: []string{"InferenceGPURowRemapPending", "InferenceGPURowRemapFailure", "InferenceGPUReplacementDue"},
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_remapped_rows", `cause="uncorrectable"`)},
				{Expr: gpuGauge("inference_gpu_row_remap_pending")},
				{Expr: gpuGauge("inference_gpu_row_remap_failure")},
				{Expr: gpuGauge("inference_gpu_repair_pending")},
				{Expr: gpuGauge("inference_gpu_memory_unrepairable")},
				{Expr: gpuGauge("inference_gpu_sram_ecc_threshold_exceeded")},
				{Expr: gpuGauge("inference_gpu_row_remap_banks", `availability="none"`)},
			},
			Columns: []Column{
				{Label: "machine", Title: "Machine"},
				{Label: "gpu", Title: "GPU", Width: 75},
				{Query: 0, Title: "Replaced"},
				{Query: 1, Title: "Pending", States: eventStates},
				{Query: 2, Title: "Failed", States: eventStates},
				{Query: 3, Title: "Repair pending", States: eventStates},
				{Query: 4, Title: "Unrepairable", States: eventStates},
				{Query: 5, Title: "Caches failing", States: eventStates},
				{Query: 6, Title: "Banks used up"},
			},
			Sort: []Order{{Title: "Failed", Desc: true}, {Title: "Pending", Desc: true}, {Title: "Replaced", Desc: true}}, NoValue: "the GPUs do not report it",
		},
	}
}

func gpuSlow() []Panel {
	const rows = 10
	active := ofGPU.of("inference_gpu_clock_event_active", `reason=~"sw_power_cap|current_limit|sw_thermal|hw_slowdown|hw_thermal|hw_power_brake"`)
	return []Panel{
		{
			Title: "Why clocks are down", Viz: StateTimeline, Width: 12, Height: 9, MaxRows: rows,
			What: "Reasons that keep the clocks of each GPU down; the ten that did so longest in the time range. The software's power cap is normal under load.", By: ByDriver,
			Worry: "a reason of the hardware lasts: look at cooling and power.", Alerts: []string{"InferenceGPUThrottled"},
			Queries: []Query{{Expr: gpuWorst(rows, "reason", "max by ("+byCard+", reason) ("+active+")", "avg_over_time("+active+"[$__range] @ end())"), Legend: card + " {{reason}}"}},
			States:  eventStates, NoValue: noGPU,
		},
		{
			Title: "Share of time with clocks down", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 9,
			What: "Share of the last 5 minutes for which each reason kept clocks down.", By: ByDriver,
			Worry: "hw_thermal or hw_power_brake are over half.", Alerts: []string{"InferenceGPUThrottled"},
			Queries: []Query{{Expr: inMachine("max by (" + byCard + ", reason) (rate(" + ofGPU.of("inference_gpu_clock_event_seconds_total") + "[5m])) > 0"), Legend: card + " {{reason}}"}},
			Min:     ptr(0.0), NoValue: "none, if the driver counts their time",
		},
		{
			Title: "Temperature", Viz: TimeSeries, Unit: "celsius", Width: 8, Height: 9,
			What: "Temperature of the chip, of its hottest point and of its memory. The dashed lines are at 83 and 87 °C, as on the dashboard of dcgm-exporter; inference_gpu_temperature_threshold_celsius has the limits of a card.", By: ByDriver,
			Worry: "a chip is near the upper line, or hotter than its neighbours.", Alerts: []string{"InferenceGPUThrottled"},
			Queries: []Query{{Expr: inMachine("max by (" + byCard + ", sensor) (" + ofGPU.of("inference_gpu_temperature_celsius") + ")"), Legend: card + " {{sensor}}"}},
			Steps:   []Step{{83, "yellow"}, {87, "red"}}, NoValue: noGPU,
		},
		{
			Title: "Degrees until it slows down", Viz: TimeSeries, Unit: "celsius", Width: 8, Height: 9,
			What: "Degrees that are left until the nearest temperature at which the card reduces its clocks: one measure for all models.", By: ByDriver,
			Worry: "it is near 0 under load, or lower than that of the neighbours.", Alerts: []string{"InferenceGPUThrottled"},
			Queries: []Query{{Expr: gpuGauge("inference_gpu_temperature_margin_celsius"), Legend: card}},
			NoValue: "the GPUs do not report it (Ada, Hopper and later do)",
		},
		{
			Title: "Power and its limit", Viz: TimeSeries, Unit: "watt", Width: 8, Height: 9,
			What: "Power that each board draws, the limit at which the driver slows it down, and the limit that the product starts with.", By: ByDriver,
			Worry: "a limit is lower than the one it started with: somebody lowered it.", Alerts: []string{"InferenceGPUPowerLimitLowered", "InferenceGPUThrottled"},
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_power_watts"), Legend: card},
				{Expr: gpuGauge("inference_gpu_power_limit_watts"), Legend: "limit " + card, Limit: true},
				{Expr: gpuGauge("inference_gpu_power_limit_default_watts"), Legend: "at start " + card, Reference: true},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
		{
			Title: "Clocks", Viz: TimeSeries, Unit: "hertz", Width: 24, Height: 8,
			What: "Clocks of the multiprocessors (graphics with AMD) and of the memory, and the highest that they can have. They fall when there is nothing to do.", By: ByDriver,
			Worry: "they are low under load.", Alerts: []string{"InferenceGPUThrottled"},
			Queries: []Query{
				{Expr: inMachine("max by (" + byCard + ", domain) (" + ofGPU.of("inference_gpu_clock_hertz", `domain=~"sm|graphics|memory"`) + ")"), Legend: card + " {{domain}}"},
				{Expr: "max by (domain) (" + ofGPU.of("inference_gpu_clock_max_hertz", `domain=~"sm|graphics|memory"`) + ")", Legend: "highest {{domain}}", Reference: true},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
	}
}

func gpuUse() []Panel {
	return []Panel{
		{
			Title: "Memory", Viz: TimeSeries, Unit: "bytes", Width: 8, Height: 8, Stacked: true,
			What: "Memory of the GPUs that programs hold, that the driver keeps and that is free. An inference server takes most of it at start.", By: ByDriver,
			Worry: "used grows slowly: something leaks, or another program came.", Alerts: []string{"InferenceGPUMemoryNearlyFull"},
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_memory_used_bytes"), Legend: "used " + card},
				{Expr: gpuGauge("inference_gpu_memory_reserved_bytes"), Legend: "reserved " + card},
				{Expr: gpuGauge("inference_gpu_memory_free_bytes"), Legend: "free " + card},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
		{
			Title: "Multiprocessors, tensor cores, memory bandwidth", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the multiprocessors that had work, of the time in which tensor cores worked, and of the memory's bandwidth in use. Tensor cores are high in prefill, bandwidth in decode.", By: ByDriver,
			Worry: "none is high while requests wait: something other than the GPU bounds the server.",
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_sm_active_ratio"), Legend: "SM " + card},
				{Expr: gpuGauge("inference_gpu_tensor_active_ratio"), Legend: "tensor " + card},
				{Expr: gpuGauge("inference_gpu_dram_bandwidth_utilization_ratio"), Legend: "bandwidth " + card},
			},
			Min: ptr(0.0), NoValue: "the GPUs do not report it (Hopper and later do)",
		},
		{
			Title: "Share of time in use", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of time in which any kernel ran, even on a single multiprocessor, and in which memory was read or written. 100 % does not mean saturated.", By: ByDriver,
			Worry: "it is 0 on a card that should serve.",
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_utilization_ratio"), Legend: "kernels " + card},
				{Expr: gpuGauge("inference_gpu_memory_utilization_ratio"), Legend: "memory " + card},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
	}
}

// gpuWork joins the GPUs to what they serve.
func gpuWork() []Panel {
	return []Panel{
		{
			Title: "Energy for 1000 tokens", Viz: TimeSeries, Unit: "joule", Width: 12, Height: 8,
			What: "Energy that the GPUs of an endpoint took, by the tokens that its servers generated, over 15 minutes. Only for endpoints whose GPUs are configured by uuid; a GPU that several share counts for each.", By: ByDriver,
			Worry: "it grows at the same load: clocks or batches changed.",
			Queries: []Query{{
				Expr: "1000 * sum by (endpoint, model) (max by (uuid) (rate(" + ofGPU.of("inference_gpu_energy_joules_total") + "[15m])) * on (uuid) group_right () max by (endpoint, model, uuid) (inference_endpoint_gpu_info))" +
					" / on (endpoint, model) (sum by (endpoint, model) (max by (endpoint, model, server) (rate(inference_server_generation_tokens_total[15m]))) > 0)",
				Legend: "{{endpoint}} {{model}}",
			}},
			Min: ptr(0.0), NoValue: "no endpoint has its GPUs configured", Links: []Link{fromSeries(uidEndpoint, "Endpoint")},
		},
		{
			Title: "Endpoints on these GPUs", Viz: Table, Width: 12, Height: 8,
			What: "Endpoints that run on the chosen GPUs, as configured, and their state.", By: ByConfig,
			Worry: "the endpoint on a faulty card is the slow one.", Alerts: []string{"InferenceGPUXID"},
			Queries: []Query{
				{Expr: inMachine("0 * max by (endpoint, model, uuid) (inference_endpoint_gpu_info) * on (uuid) group_left (" + byCard + ") topk by (uuid) (1, max by (uuid, " + byCard + ") (" + ofGPU.of("inference_gpu_info") + "))" +
					" + on (endpoint) group_left () min by (endpoint) (" + stateOfProber(ofJob) + ")")},
			},
			Columns: []Column{
				{Label: "endpoint", Title: "Endpoint", Links: []Link{fromRow(uidEndpoint, "Endpoint"), fromRow(uidEngine, "Servers")}},
				{Label: "model", Title: "Model"},
				{Label: "machine", Title: "Machine"},
				{Label: "vendor", Title: "Vendor", Width: 95},
				{Label: "gpu", Title: "GPU", Width: 75},
				{Title: "State", States: endpointStates, Width: 100},
			},
			Sort: []Order{{Title: "State", Desc: true}}, NoValue: "no endpoint has its GPUs configured",
		},
	}
}

// linkErrors are the errors of links a minute, by kind, of the cards that have any.
func linkErrors(name string) string {
	return inMachine("60 * sum by (" + byCard + ", kind) (rate(" + ofGPU.of(name) + "[5m])) > 0")
}

// gpuLinks is what PCIe and NVLink carry, and how well.
func gpuLinks() []Panel {
	return slices.Concat([]Panel{
		{
			Title: "PCIe", Viz: TimeSeries, Unit: "binBps", Width: 8, Height: 8,
			What: "Bytes that each GPU sent and received over PCIe.", By: ByDriver,
			Worry: "it is high in decode: weights or the cache are swapped to the host.",
			Queries: []Query{
				{Expr: gpuRate("inference_gpu_pcie_transmit_bytes_total"), Legend: "sent " + card},
				{Expr: gpuRate("inference_gpu_pcie_receive_bytes_total"), Legend: "received " + card},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
		{
			Title: "NVLink", Viz: TimeSeries, Unit: "binBps", Width: 8, Height: 8,
			What: "Payload that each GPU sent and received over its NVLinks.", By: ByDriver,
			Worry: "one card of a tensor-parallel group has less than the others.",
			Queries: []Query{
				{Expr: gpuRate("inference_gpu_nvlink_transmit_bytes_total"), Legend: "sent " + card},
				{Expr: gpuRate("inference_gpu_nvlink_receive_bytes_total"), Legend: "received " + card},
			},
			Min: ptr(0.0), NoValue: "no NVLink",
		},
		{
			Title: "Errors of the links", Viz: TimeSeries, Unit: "cpm", Width: 8, Height: 8,
			What: "Packets a minute that PCIe sent again, its errors, and errors a minute on the NVLinks and on the links to the CPU, by kind.", By: ByDriver,
			Worry: "any rises steadily: a bad slot, riser, bridge or contact.", Alerts: []string{"InferenceGPUNVLinkErrors"},
			Queries: []Query{
				{Expr: "60 * " + gpuRate("inference_gpu_pcie_replays_total") + " > 0", Legend: "PCIe " + card},
				{Expr: linkErrors("inference_gpu_pcie_errors_total"), Legend: "PCIe {{kind}} " + card},
				{Expr: linkErrors("inference_gpu_nvlink_errors_total"), Legend: "NVLink {{kind}} " + card},
				{Expr: linkErrors("inference_gpu_c2c_errors_total"), Legend: "to the CPU {{kind}} " + card},
			},
			Min: ptr(0.0), NoValue: "none, if a GPU is read",
		},
		{
			Title: "Width and generation of PCIe", Viz: Table, Width: 12, Height: 7,
			What: "Lanes and generation of each link now, the most that are possible, and how many lanes are missing. The generation falls when there is nothing to do.", By: ByDriver,
			Worry: "lanes are missing that were there, or that other cards have.", Alerts: []string{"InferenceGPUPCIeDegraded"},
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_pcie_link_width")},
				{Expr: gpuGauge("inference_gpu_pcie_link_width_max") + " - " + gpuGauge("inference_gpu_pcie_link_width")},
				{Expr: gpuGauge("inference_gpu_pcie_link_generation")},
				{Expr: gpuGauge("inference_gpu_pcie_link_generation_max")},
			},
			Columns: []Column{
				{Label: "machine", Title: "Machine"},
				{Label: "vendor", Title: "Vendor", Width: 95},
				{Label: "gpu", Title: "GPU", Width: 75},
				{Query: 0, Title: "Lanes"},
				{Query: 1, Title: "Missing"},
				{Query: 2, Title: "Generation"},
				{Query: 3, Title: "Possible"},
			},
			Sort: []Order{{Title: "Missing", Desc: true}}, NoValue: noGPU,
		},
	}, gpuFabric())
}

// gpuFabric is the fabric of NVLinks, and where in it and in the rack the GPUs are.
func gpuFabric() []Panel {
	const rows = 10
	faults := ofGPU.of("inference_gpu_fabric_fault")
	return []Panel{
		{
			Title: "NVLink fabric and links that are up", Viz: TimeSeries, Unit: "none", Width: 12, Height: 7,
			What: "NVLinks of each GPU that are active; the state of the fabric: 1 not started, 2 in progress, 3 completed; and, once completed, whether it is healthy: 1, else 0.", By: ByDriver,
			Worry: "a link is gone, the fabric is not at 3, or it is not healthy.", Alerts: []string{"InferenceGPUFabricUnhealthy", "InferenceGPUNVLinkDown"},
			Queries: []Query{
				{Expr: inMachine("sum by (" + byCard + ") (max by (" + byCard + ", link) (" + ofGPU.of("inference_gpu_nvlink_up") + "))"), Legend: "links " + card},
				{Expr: gpuGauge("inference_gpu_fabric_state"), Legend: "fabric " + card},
				{Expr: gpuGauge("inference_gpu_fabric_healthy"), Legend: "fabric healthy " + card},
			},
			Min: ptr(0.0), NoValue: "no NVLink",
		},
		{
			Title: "Faults of the fabric", Viz: StateTimeline, Width: 12, Height: 8, MaxRows: rows,
			What: "What the driver finds wrong with the NVLink fabric of each GPU; the ten faults that lasted longest in the time range.", By: ByDriver,
			Worry: "any lasts: degraded bandwidth and routes slow down tensor parallelism, an incorrect configuration keeps the GPU out.", Alerts: []string{"InferenceGPUFabricUnhealthy"},
			Queries: []Query{{Expr: gpuWorst(rows, "fault", "max by ("+byCard+", fault) ("+faults+")", "avg_over_time("+faults+"[$__range] @ end())") + " > 0", Legend: card + " {{fault}}"}},
			States:  eventStates, NoValue: "no fault, if the GPUs have a fabric",
		},
		{
			Title: "Place in the rack", Viz: Table, Width: 12, Height: 8,
			What: "Chassis, slot, compute tray and module of each GPU, also of one that is lost, and the NVLink domain and the clique that it belongs to.", By: ByDriver,
			Worry: "GPUs of one job are in different cliques.", Alerts: []string{"InferenceGPULost"},
			Queries: []Query{
				{Expr: inMachine("max by (" + byCard + ", chassis_serial_number, slot_number, tray_index, host_id, module_id) (" + ofGPU.of("inference_gpu_platform_info") + ")")},
				{Expr: inMachine("max by (" + byCard + ", cluster_uuid, clique_id) (" + ofGPU.of("inference_gpu_fabric_info") + ")")},
			},
			Columns: []Column{
				{Label: "machine", Title: "Machine"},
				{Label: "gpu", Title: "GPU", Width: 75},
				{Label: "chassis_serial_number", Title: "Chassis"},
				{Label: "slot_number", Title: "Slot", Width: 75},
				{Label: "tray_index", Title: "Tray", Width: 75},
				{Label: "host_id", Title: "Host", Width: 75},
				{Label: "module_id", Title: "Module", Width: 85},
				{Label: "cluster_uuid", Title: "NVLink domain"},
				{Label: "clique_id", Title: "Clique", Width: 85},
			},
			Sort: []Order{{Title: "Machine"}, {Title: "GPU"}}, NoValue: "the GPUs do not report it (Blackwell and later do)",
		},
	}
}

func gpuParts() []Panel {
	return []Panel{
		{
			Title: "Memory of MIG devices", Viz: TimeSeries, Unit: "bytes", Width: 8, Height: 8,
			What: "Memory that programs hold on each part of a GPU that is split by MIG.", By: ByDriver,
			Worry: "used is at the total, the dashed line.", Alerts: []string{"InferenceGPUMemoryNearlyFull"},
			Queries: []Query{
				{Expr: inMachine("max by (" + byCard + ", mig_uuid, mig_profile) (" + ofGPU.of("inference_gpu_mig_memory_used_bytes") + ")"), Legend: card + " {{mig_profile}} {{mig_uuid}}"},
				{Expr: "max by (mig_profile) (" + ofGPU.of("inference_gpu_mig_memory_total_bytes") + ")", Legend: "total {{mig_profile}}", Limit: true},
			},
			Min: ptr(0.0), NoValue: "no GPU is split",
		},
		{
			Title: "Programs by memory", Viz: TimeSeries, Unit: "bytes", Width: 8, Height: 8, Stacked: true,
			What: "Memory that each program holds. Only when programs are asked for.", By: ByDriver,
			Worry: "an unexpected program holds memory on the card.", Alerts: []string{"InferenceGPUMemoryNearlyFull"},
			Queries: []Query{{Expr: inMachine("max by (" + byCard + ", pid, process) (" + ofGPU.of("inference_gpu_process_memory_used_bytes") + ")"), Legend: card + " {{process}} {{pid}}"}},
			Min:     ptr(0.0), NoValue: "programs are not asked for",
		},
		{
			Title: "Polls of the driver", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "How old the readings of each machine are, and how long the latest poll took.", By: ByExporter,
			Worry: "polls get slower: a GPU is often about to fail then. The age grows: the driver is stuck.", Alerts: []string{"InferenceGPUDriverStuck"},
			Queries: []Query{
				{Expr: "time() - max by (instance, source) (" + ofMachine.of("inference_gpu_last_poll_timestamp_seconds") + ")", Legend: "age {{instance}} {{source}}"},
				{Expr: "max by (instance, source) (" + ofMachine.of("inference_gpu_poll_duration_seconds") + ")", Legend: "duration {{instance}} {{source}}"},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
		{
			Title: "Pods", Viz: Table, Width: 16, Height: 8,
			What: "Which pod was given which GPU, as reported by the kubelet.", By: ByDriver,
			Worry:   "the faulty card belongs to the pod of the slow server.",
			Queries: []Query{{Expr: "max by (instance, vendor, gpu, namespace, pod, container) (" + ofGPU.of("inference_gpu_pod_info") + ")"}},
			Columns: []Column{
				{Label: "instance", Title: "Instance"},
				{Label: "vendor", Title: "Vendor", Width: 95},
				{Label: "gpu", Title: "GPU", Width: 75},
				{Label: "namespace", Title: "Namespace"},
				{Label: "pod", Title: "Pod"},
				{Label: "container", Title: "Container"},
			},
			Sort: []Order{{Title: "Instance"}, {Title: "GPU"}}, NoValue: "the kubelet is not asked",
		},
		{
			Title: "Fans", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Speed that each fan is set to.", By: ByDriver,
			Worry: "it is at its highest and the temperature rises.", Alerts: []string{"InferenceGPUThrottled"},
			Queries: []Query{{Expr: inMachine("max by (" + byCard + ", fan) (" + ofGPU.of("inference_gpu_fan_speed_ratio") + ")"), Legend: card + " {{fan}}"}},
			Min:     ptr(0.0), NoValue: "no fans",
		},
	}
}

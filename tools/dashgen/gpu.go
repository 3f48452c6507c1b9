package main

// card names a series of one GPU.
const card = "{{instance}} {{gpu}}"

// byCard groups the readings of GPUs.
const byCard = "instance, gpu"

func gpuBoard() Board {
	return Board{
		UID: uidGPU, Title: "Inference / GPU",
		Question:  "Is a card sick, gone or slowed down, and is it compute or bandwidth that bounds it?",
		Variables: []Variable{datasourceVariable(), jobVariable(), machineVariable(), gpuVariable()},
		Marks:     []Mark{gpuAlertMark()},
		From:      "now-3h",
		Rows: []Row{
			{Panels: gpuNow()},
			{Title: "Errors", Panels: gpuErrors()},
			{Title: "What slows it down", Panels: gpuSlow()},
			{Title: "Use", Panels: append(gpuUse(), gpuWork()...)},
			{Title: "Links", Panels: gpuLinks()},
			{Title: "Parts and programs", Collapsed: true, Panels: gpuParts()},
		},
	}
}

// gpuAlertMark is alertMark for a board of GPUs.
func gpuAlertMark() Mark {
	m := allAlertsMark()
	m.Expr = `ALERTS{alertstate="firing",alertname=~"InferenceGPU.*",instance=~"|$instance",gpu=~"|$gpu"}`
	m.Text = "{{instance}} {{gpu}}"
	return m
}

// gpuGauge is a reading of each GPU.
func gpuGauge(name string, matchers ...string) string {
	return "max by (" + byCard + ") (" + ofGPU.of(name, matchers...) + ")"
}

// gpuRate is the rate of a counter of each GPU.
func gpuRate(name string, matchers ...string) string {
	return "sum by (" + byCard + ") (rate(" + ofGPU.of(name, matchers...) + "[5m]))"
}

func gpuNow() []Panel {
	return []Panel{
		{
			Title: "GPUs here, and at most in 6 hours", Viz: TimeSeries, Unit: "none", Width: 6, Height: 8,
			What: "GPUs that the driver of each machine counts, and the most that it counted in 6 hours.", By: ByDriver,
			Worry: "the lines part: a card fell off the bus.", Alerts: []string{"InferenceGPULost"},
			Queries: []Query{
				{Expr: "max by (instance) (" + ofMachine.of("inference_gpu_devices") + ")", Legend: "now {{instance}}"},
				{Expr: "max by (instance) (max_over_time(" + ofMachine.of("inference_gpu_devices") + "[6h]))", Legend: "at most {{instance}}", Limit: true},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
		{
			Title: "State of the driver", Viz: StateTimeline, Width: 6, Height: 8,
			What: "Whether the GPUs of each machine are read.", By: ByDriver,
			Worry: "it is failed on a machine with GPUs. inference_gpu_state says why.", Alerts: []string{"InferenceGPUDriverStuck"},
			Queries: []Query{{Expr: "max by (instance) (" + ofMachine.of("inference_gpu_up") + ")", Legend: "{{instance}}"}},
			States:  upStates, NoValue: noGPU,
		},
		{
			Title: "Cards", Viz: Table, Width: 12, Height: 8,
			What: "Each GPU as it is now: whether it answers, its product and driver, temperature, power and memory in use, the age of its latest critical error (XID), and what the driver asks for.", By: ByDriver,
			Worry: "one does not answer, has a young XID, or the driver asks for anything.", Alerts: []string{"InferenceGPULost", "InferenceGPUXID"},
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_device_up")},
				{Expr: gpuGauge("inference_gpu_temperature_celsius", `sensor="gpu"`)},
				{Expr: gpuGauge("inference_gpu_power_watts")},
				{Expr: gpuGauge("inference_gpu_memory_used_bytes")},
				{Expr: "time() - " + gpuGauge("inference_gpu_xid_last_timestamp_seconds")},
				{Expr: gpuGauge("inference_gpu_recovery_action")},
				{Expr: "max by (instance, gpu, name, driver_version) (" + ofGPU.of("inference_gpu_info") + ")"},
			},
			Columns: []Column{
				{Label: "instance", Title: "Instance"},
				{Label: "gpu", Title: "GPU", Width: 50},
				{Query: 0, Title: "Answers", States: upStates, Width: 80},
				{Label: "name", Title: "Product"},
				{Label: "driver_version", Title: "Driver", Width: 90},
				{Query: 1, Title: "Chip", Unit: "celsius", Width: 60},
				{Query: 2, Title: "Power", Unit: "watt", Width: 70},
				{Query: 3, Title: "Memory", Unit: "bytes", Width: 80},
				{Query: 4, Title: "XID age", Unit: "s", Width: 80},
				{Query: 5, Title: "Asks for", Width: 110, States: recoveryStates},
			},
			NoValue: noGPU,
		},
	}
}

// noGPU stands where no GPU is read.
const noGPU = "no GPU is read here"

// recoveryStates are the values of inference_gpu_recovery_action.
var recoveryStates = []State{
	{"0", "nothing", "green"},
	{"1", "reset", "red"},
	{"2", "reboot", "red"},
	{"3", "drain P2P", "yellow"},
	{"4", "drain and reset", "red"},
	{"5", "recover IMEX", "red"},
}

// eventStates are those of a query that is 1 while something is the case.
var eventStates = []State{{"0", "no", "transparent"}, {"1", "yes", "red"}}

func gpuErrors() []Panel {
	return []Panel{
		{
			Title: "Critical errors (XID)", Viz: StateTimeline, Width: 8, Height: 8,
			What: "XIDs that the driver told of, each for 10 minutes after its latest error.", By: ByDriver,
			Worry: "48, 62, 64, 74, 79, 95, 119 or 120 appear; 13, 31 and 43 are mostly faults of a program.", Alerts: []string{"InferenceGPUXID"},
			Queries: []Query{{Expr: "(time() - max by (instance, gpu, xid) (" + ofGPU.of("inference_gpu_xid_last_timestamp_seconds") + ")) < bool 600", Legend: card + " XID {{xid}}"}},
			States:  eventStates, NoValue: "no XID since the exporter started",
		},
		{
			Title: "Memory errors an hour", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8,
			What: "Errors of the memory that ECC corrected, and those that it could not.", By: ByDriver,
			Worry: "any is uncorrected: it ended the program that met it.", Alerts: []string{"InferenceGPUECCUncorrectable"},
			Queries: []Query{{Expr: "sum by (instance, gpu, severity) (increase(" + ofGPU.of("inference_gpu_ecc_errors_total") + "[1h]))", Legend: card + " {{severity}}"}},
			Min:     ptr(0.0), NoValue: "no ECC",
		},
		{
			Title: "Rows of memory", Viz: Table, Width: 8, Height: 8,
			What: "Rows of the memory that spare ones replaced after uncorrectable errors; whether one waits for a reset; whether one could not be replaced.", By: ByDriver,
			Worry: "a replacement is pending (plan a reset) or failed (exchange the card).", Alerts: []string{"InferenceGPURowRemapPending", "InferenceGPURowRemapFailure"},
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_remapped_rows", `cause="uncorrectable"`)},
				{Expr: gpuGauge("inference_gpu_row_remap_pending")},
				{Expr: gpuGauge("inference_gpu_row_remap_failure")},
			},
			Columns: []Column{
				{Label: "instance", Title: "Instance"},
				{Label: "gpu", Title: "GPU", Width: 50},
				{Query: 0, Title: "Replaced", Width: 90},
				{Query: 1, Title: "Pending", Width: 90, States: eventStates},
				{Query: 2, Title: "Failed", Width: 90, States: eventStates},
			},
			NoValue: "the GPUs do not tell",
		},
	}
}

func gpuSlow() []Panel {
	const reasons = `reason=~"sw_power_cap|sw_thermal|hw_slowdown|hw_thermal|hw_power_brake"`
	return []Panel{
		{
			Title: "Why clocks are down", Viz: StateTimeline, Width: 12, Height: 9,
			What: "Reasons that keep the clocks of each GPU down. The software's power cap is normal under load.", By: ByDriver,
			Worry: "a reason of the hardware lasts: look at cooling and power.", Alerts: []string{"InferenceGPUThrottled"},
			Queries: []Query{{Expr: "max by (instance, gpu, reason) (" + ofGPU.of("inference_gpu_clock_event_active", reasons) + ")", Legend: card + " {{reason}}"}},
			States:  eventStates, NoValue: noGPU,
		},
		{
			Title: "Share of time with clocks down", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 9,
			What: "Share of the last 5 minutes for which each reason kept clocks down.", By: ByDriver,
			Worry: "hw_thermal or hw_power_brake are over half.", Alerts: []string{"InferenceGPUThrottled"},
			Queries: []Query{{Expr: "max by (instance, gpu, reason) (rate(" + ofGPU.of("inference_gpu_clock_event_seconds_total") + "[5m]))", Legend: card + " {{reason}}"}},
			Min:     ptr(0.0), NoValue: noGPU,
		},
		{
			Title: "Temperature", Viz: TimeSeries, Unit: "celsius", Width: 8, Height: 8,
			What: "Temperature of the chip and of its memory.", By: ByDriver,
			Worry: "one card is hotter than its neighbours.", Alerts: []string{"InferenceGPUThrottled"},
			Queries: []Query{{Expr: "max by (instance, gpu, sensor) (" + ofGPU.of("inference_gpu_temperature_celsius") + ")", Legend: card + " {{sensor}}"}},
			NoValue: noGPU,
		},
		{
			Title: "Power and its limit", Viz: TimeSeries, Unit: "watt", Width: 8, Height: 8,
			What: "Power that each board draws, and the limit at which the driver slows it down.", By: ByDriver,
			Worry: "a limit is lower than those of its like.", Alerts: []string{"InferenceGPUThrottled"},
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_power_watts"), Legend: card},
				{Expr: gpuGauge("inference_gpu_power_limit_watts"), Legend: "limit " + card, Limit: true},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
		{
			Title: "Clocks", Viz: TimeSeries, Unit: "hertz", Width: 8, Height: 8,
			What: "Clocks of the multiprocessors and of the memory, and the highest that they can have. They fall when there is nothing to do.", By: ByDriver,
			Worry: "they are low under load.", Alerts: []string{"InferenceGPUThrottled"},
			Queries: []Query{
				{Expr: "max by (instance, gpu, domain) (" + ofGPU.of("inference_gpu_clock_hertz", `domain=~"sm|memory"`) + ")", Legend: card + " {{domain}}"},
				{Expr: "max by (domain) (" + ofGPU.of("inference_gpu_clock_max_hertz", `domain=~"sm|memory"`) + ")", Legend: "highest {{domain}}", Limit: true},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
	}
}

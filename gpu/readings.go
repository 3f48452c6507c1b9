package gpu

import "slices"

// Kind is what a reading measures: the name of its metric less the prefix.
type Kind string

// The kinds that every device may have. The label of each, where it has one,
// stands behind it.
const (
	MemoryTotal              Kind = "memory_total_bytes"
	MemoryUsed               Kind = "memory_used_bytes"
	MemoryFree               Kind = "memory_free_bytes"
	MemoryReserved           Kind = "memory_reserved_bytes"
	MemoryBandwidth          Kind = "memory_bandwidth_bytes_per_second" // source
	Utilization              Kind = "utilization_ratio"
	MemoryUtilization        Kind = "memory_utilization_ratio"
	EncoderUtilization       Kind = "encoder_utilization_ratio"
	DecoderUtilization       Kind = "decoder_utilization_ratio"
	Clock                    Kind = "clock_hertz"     // domain
	ClockMax                 Kind = "clock_max_hertz" // domain
	Power                    Kind = "power_watts"
	PowerLimit               Kind = "power_limit_watts"
	Energy                   Kind = "energy_joules_total"
	Temperature              Kind = "temperature_celsius" // sensor
	FanSpeed                 Kind = "fan_speed_ratio"     // fan
	PState                   Kind = "pstate"
	ClockEventActive         Kind = "clock_event_active"        // reason
	ClockEventSeconds        Kind = "clock_event_seconds_total" // reason
	PCIeLinkGeneration       Kind = "pcie_link_generation"
	PCIeLinkGenerationMax    Kind = "pcie_link_generation_max"
	PCIeLinkWidth            Kind = "pcie_link_width"
	PCIeLinkWidthMax         Kind = "pcie_link_width_max"
	PCIeTransmit             Kind = "pcie_transmit_bytes_total"
	PCIeReceive              Kind = "pcie_receive_bytes_total"
	PCIeReplays              Kind = "pcie_replays_total"
	NVLinkTransmit           Kind = "nvlink_transmit_bytes_total"
	NVLinkReceive            Kind = "nvlink_receive_bytes_total"
	NVLinkErrors             Kind = "nvlink_errors_total"  // kind
	NVLinkUp                 Kind = "nvlink_up"            // link
	ECCErrors                Kind = "ecc_errors_total"     // severity; since the driver was loaded
	ECCErrorsLifetime        Kind = "ecc_errors_aggregate" // severity
	RemappedRowsCount        Kind = "remapped_rows"        // cause
	RowRemapPending          Kind = "row_remap_pending"
	RowRemapFailure          Kind = "row_remap_failure"
	RecoveryAction           Kind = "recovery_action"
	FabricState              Kind = "fabric_state"
	FabricHealthy            Kind = "fabric_healthy"
	GraphicsActive           Kind = "graphics_active_ratio"
	SMActive                 Kind = "sm_active_ratio"
	SMOccupancy              Kind = "sm_occupancy_ratio"
	TensorActive             Kind = "tensor_active_ratio"
	DRAMBandwidthUtilization Kind = "dram_bandwidth_utilization_ratio"
)

// MetricType tells how the values of a kind go on.
type MetricType string

// The types.
const (
	Counter MetricType = "counter" // grows until the driver is loaded again
	Gauge   MetricType = "gauge"
)

// Info describes a kind of reading: what stands on the page and in the
// documentation.
type Info struct {
	Kind Kind
	Type MetricType
	// Label is the name of the kind's own label; "" where it has none.
	Label string
	// Values are the closed set of values of the label; nil for the numbers of
	// fans and of links.
	Values []string
	// Help is for the reader who is on call.
	Help string
	// Unit is the base unit; "" for states and plain numbers.
	Unit string
	// DCGM and NvidiaSMI are the names that the same reading has in DCGM and in
	// nvidia-smi --query-gpu; "" is none, or unknown. Their units differ.
	DCGM, NvidiaSMI string
	// Hardware says which GPUs have it.
	Hardware string
}

// The hardware that has a reading.
const (
	everyGPU     = "every GPU"
	unsplitGPU   = "every GPU without MIG"
	hopper       = "Hopper and later"
	ampere       = "Ampere and later, without MIG"
	volta        = "Volta and later"
	withECC      = "memory with ECC that is on"
	withHBM      = "every GPU; `memory` where the memory is HBM"
	withFan      = "boards with fans of their own"
	withNVLink   = "NVLink, without MIG"
	fabricGPU    = "Hopper and later with NVSwitch"
	recentDriver = "recent drivers"
)

// Readings returns every kind, in the order of a page.
func Readings() []Info {
	return slices.Concat(
		memoryReadings(), loadReadings(), unitReadings(), clockReadings(), powerReadings(),
		pcieReadings(), nvlinkReadings(), eccReadings(), stateReadings(),
	)
}

// ClockReasons returns the values of the label of ClockEventActive.
func ClockReasons() []string {
	var names []string
	for _, r := range clockReasons() {
		names = append(names, r.name)
	}
	return names
}

// clockReason is a bit of Device.ClockEventReasons.
type clockReason struct {
	bit  uint64
	name string
}

func clockReasons() []clockReason {
	return []clockReason{
		{0x1, "idle"},
		{0x2, "application_clocks"},
		{0x4, "sw_power_cap"},
		{0x8, "hw_slowdown"},
		{0x10, "sync_boost"},
		{0x20, "sw_thermal"},
		{0x40, "hw_thermal"},
		{0x80, "hw_power_brake"},
		{0x100, "display_clock"},
	}
}

func memoryReadings() []Info {
	return []Info{
		{
			Kind: MemoryTotal, Type: Gauge, Unit: "bytes", Hardware: everyGPU,
			Help: "Memory of the GPU, what the driver keeps for itself included.",
			DCGM: "DCGM_FI_DEV_FB_TOTAL", NvidiaSMI: "memory.total",
		},
		{
			Kind: MemoryUsed, Type: Gauge, Unit: "bytes", Hardware: everyGPU,
			Help: "Memory that programs hold. An inference server takes most of it at start, so that this tells of other programs rather than of load. " +
				"Old drivers count their own reserve in; there is no reserve of its own then.",
			DCGM: "DCGM_FI_DEV_FB_USED", NvidiaSMI: "memory.used",
		},
		{
			Kind: MemoryFree, Type: Gauge, Unit: "bytes", Hardware: everyGPU,
			Help: "Memory that nothing holds. Near 0 is normal under an inference server.",
			DCGM: "DCGM_FI_DEV_FB_FREE", NvidiaSMI: "memory.free",
		},
		{
			Kind: MemoryReserved, Type: Gauge, Unit: "bytes", Hardware: recentDriver,
			Help: "Memory that the driver and the firmware keep for themselves.",
			DCGM: "DCGM_FI_DEV_FB_RESERVED", NvidiaSMI: "memory.reserved",
		},
		{
			Kind: MemoryBandwidth, Type: Gauge, Unit: "bytes per second", Hardware: "every GPU whose bandwidth is known; no MIG device, no vGPU",
			Label: "source", Values: bandwidthSources(),
			Help: "How fast the memory can be read at best, which bounds how fast one sequence is decoded. The source is the configuration, " +
				"the data sheet of the product, or a formula over memory clock and bus width.",
		},
	}
}

func loadReadings() []Info {
	return []Info{
		{
			Kind: Utilization, Type: Gauge, Unit: "ratio", Hardware: unsplitGPU,
			Help: "Share of time in which any kernel ran, be it on one unit only: 1 does not mean that the GPU is full.",
			DCGM: "DCGM_FI_DEV_GPU_UTIL", NvidiaSMI: "utilization.gpu",
		},
		{
			Kind: MemoryUtilization, Type: Gauge, Unit: "ratio", Hardware: unsplitGPU,
			Help: "Share of time in which memory was read or written, at whatever speed: not the share of its bandwidth.",
			DCGM: "DCGM_FI_DEV_MEM_COPY_UTIL", NvidiaSMI: "utilization.memory",
		},
		{
			Kind: EncoderUtilization, Type: Gauge, Unit: "ratio", Hardware: "video encoder, without MIG",
			Help: "Share of time in which the video encoder worked.",
			DCGM: "DCGM_FI_DEV_ENC_UTIL", NvidiaSMI: "utilization.encoder",
		},
		{
			Kind: DecoderUtilization, Type: Gauge, Unit: "ratio", Hardware: "video decoder, without MIG",
			Help: "Share of time in which the video decoder worked.",
			DCGM: "DCGM_FI_DEV_DEC_UTIL", NvidiaSMI: "utilization.decoder",
		},
	}
}

// unitReadings are those that the driver counts in the units of a GPU (GPM).
func unitReadings() []Info {
	return []Info{
		{
			Kind: GraphicsActive, Type: Gauge, Unit: "ratio", Hardware: hopper,
			Help: "Share of time in which any compute or graphics program was active, since the poll before.",
			DCGM: "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
		},
		{
			Kind: SMActive, Type: Gauge, Unit: "ratio", Hardware: hopper,
			Help: "Share of the multiprocessors that had work, since the poll before.",
			DCGM: "DCGM_FI_PROF_SM_ACTIVE",
		},
		{
			Kind: SMOccupancy, Type: Gauge, Unit: "ratio", Hardware: hopper,
			Help: "Share of the warps that were there of those that could be, since the poll before.",
			DCGM: "DCGM_FI_PROF_SM_OCCUPANCY",
		},
		{
			Kind: TensorActive, Type: Gauge, Unit: "ratio", Hardware: hopper,
			Help: "Share of time in which tensor cores worked, since the poll before. High in prefill, low in decode.",
			DCGM: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
		},
		{
			Kind: DRAMBandwidthUtilization, Type: Gauge, Unit: "ratio", Hardware: hopper,
			Help: "Share of the memory's bandwidth in use, since the poll before. High in decode: then the memory is what bounds it.",
			DCGM: "DCGM_FI_PROF_DRAM_ACTIVE",
		},
	}
}

func clockReadings() []Info {
	domains := []string{string(ClockGraphics), string(ClockSM), string(ClockMemory), string(ClockVideo)}
	return []Info{
		{
			Kind: Clock, Type: Gauge, Unit: "hertz", Hardware: everyGPU, Label: "domain", Values: domains,
			Help: "Clock at this moment. It falls when there is nothing to do.",
			DCGM: "DCGM_FI_DEV_SM_CLOCK, DCGM_FI_DEV_MEM_CLOCK", NvidiaSMI: "clocks.current.*",
		},
		{
			Kind: ClockMax, Type: Gauge, Unit: "hertz", Hardware: everyGPU, Label: "domain", Values: domains,
			Help:      "Highest clock that the GPU can have.",
			NvidiaSMI: "clocks.max.*",
		},
		{
			Kind: ClockEventActive, Type: Gauge, Hardware: everyGPU, Label: "reason", Values: ClockReasons(),
			Help: "1 while this is why clocks are not higher, else 0. Hardware slowdown, thermal and power brake ask for a look at cooling and power; " +
				"sw_power_cap is normal under full load.",
			DCGM: "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", NvidiaSMI: "clocks_event_reasons.*",
		},
		{
			Kind: ClockEventSeconds, Type: Counter, Unit: "seconds", Hardware: recentDriver, Label: "reason",
			Values:    []string{"sw_power_cap", "sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake"},
			Help:      "Time for which this kept clocks down.",
			DCGM:      "DCGM_FI_DEV_POWER_VIOLATION, DCGM_FI_DEV_THERMAL_VIOLATION",
			NvidiaSMI: "clocks_event_reasons_counters.*",
		},
	}
}

func powerReadings() []Info {
	return []Info{
		{
			Kind: Power, Type: Gauge, Unit: "watts", Hardware: everyGPU,
			Help: "Power that the board draws: the mean of a second on Ampere and later save A100 and A30, the present value before.",
			DCGM: "DCGM_FI_DEV_POWER_USAGE", NvidiaSMI: "power.draw",
		},
		{
			Kind: PowerLimit, Type: Gauge, Unit: "watts", Hardware: everyGPU,
			Help: "Power at which the driver slows the GPU down.",
			DCGM: "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", NvidiaSMI: "enforced.power.limit",
		},
		{
			Kind: Energy, Type: Counter, Unit: "joules", Hardware: volta,
			Help: "Energy that the GPU took since the driver was loaded.",
			DCGM: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
		},
		{
			Kind: Temperature, Type: Gauge, Unit: "degrees Celsius", Hardware: withHBM, Label: "sensor", Values: []string{"gpu", "memory"},
			Help: "Temperature of the chip and of its memory.",
			DCGM: "DCGM_FI_DEV_GPU_TEMP, DCGM_FI_DEV_MEMORY_TEMP", NvidiaSMI: "temperature.gpu, temperature.memory",
		},
		{
			Kind: FanSpeed, Type: Gauge, Unit: "ratio", Hardware: withFan, Label: "fan",
			Help: "Speed that the fan is told to have, of its highest; it may be above 1. A fan that is blocked does not show here.",
			DCGM: "DCGM_FI_DEV_FAN_SPEED", NvidiaSMI: "fan.speed",
		},
		{
			Kind: PState, Type: Gauge, Hardware: everyGPU,
			Help: "Performance state, from 0, the fastest, to 15.",
			DCGM: "DCGM_FI_DEV_PSTATE", NvidiaSMI: "pstate",
		},
	}
}

func pcieReadings() []Info {
	const wraps = "The counter of the driver may wrap around between two polls under heavy traffic; rates are too low then."
	return []Info{
		{
			Kind: PCIeLinkGeneration, Type: Gauge, Hardware: everyGPU,
			Help: "PCIe generation of the link at this moment. 1 is normal while there is nothing to do.",
			DCGM: "DCGM_FI_DEV_PCIE_LINK_GEN", NvidiaSMI: "pcie.link.gen.gpucurrent",
		},
		{
			Kind: PCIeLinkGenerationMax, Type: Gauge, Hardware: everyGPU,
			Help:      "Highest PCIe generation that GPU and system have in common.",
			NvidiaSMI: "pcie.link.gen.max",
		},
		{
			Kind: PCIeLinkWidth, Type: Gauge, Hardware: everyGPU,
			Help: "PCIe lanes of the link at this moment. Fewer than the most under load: a bad slot, riser or contact.",
			DCGM: "DCGM_FI_DEV_PCIE_LINK_WIDTH", NvidiaSMI: "pcie.link.width.current",
		},
		{
			Kind: PCIeLinkWidthMax, Type: Gauge, Hardware: everyGPU,
			Help:      "Most PCIe lanes that GPU and system have in common.",
			NvidiaSMI: "pcie.link.width.max",
		},
		{
			Kind: PCIeTransmit, Type: Counter, Unit: "bytes", Hardware: recentDriver,
			Help: "Bytes that the GPU sent over PCIe. " + wraps,
			DCGM: "DCGM_FI_PROF_PCIE_TX_BYTES",
		},
		{
			Kind: PCIeReceive, Type: Counter, Unit: "bytes", Hardware: recentDriver,
			Help: "Bytes that the GPU received over PCIe. " + wraps,
			DCGM: "DCGM_FI_PROF_PCIE_RX_BYTES",
		},
		{
			Kind: PCIeReplays, Type: Counter, Hardware: everyGPU,
			Help: "Packets that had to be sent again over PCIe. A steady rise is a bad link.",
			DCGM: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
		},
	}
}

func nvlinkReadings() []Info {
	return []Info{
		{
			Kind: NVLinkTransmit, Type: Counter, Unit: "bytes", Hardware: withNVLink,
			Help: "Payload that the GPU sent over all its NVLinks; what the links themselves count where the driver gives no payload, as with NVLink 5.",
			DCGM: "DCGM_FI_PROF_NVLINK_TX_BYTES",
		},
		{
			Kind: NVLinkReceive, Type: Counter, Unit: "bytes", Hardware: withNVLink,
			Help: "Payload that the GPU received over all its NVLinks; what the links themselves count where the driver gives no payload, as with NVLink 5.",
			DCGM: "DCGM_FI_PROF_NVLINK_RX_BYTES",
		},
		{
			Kind: NVLinkErrors, Type: Counter, Hardware: "NVLink, without MIG; recoveries, and CRC errors and replays up to NVLink 4 or the other kinds from NVLink 5 on",
			Label: "kind", Values: linkErrorKinds(),
			Help: "Errors on all NVLinks of the GPU, and recoveries of links. The hardware mends them; a steady rise slows tensor parallelism down. " +
				"recovery_failed means that a link is gone.",
			DCGM: "DCGM_FI_DEV_NVLINK_*_ERROR_COUNT_TOTAL",
		},
		{
			Kind: NVLinkUp, Type: Gauge, Hardware: withNVLink, Label: "link",
			Help: "1 for an NVLink that is active or sleeps, 0 for one that is neither, be it that nothing is connected to it.",
		},
	}
}

func eccReadings() []Info {
	severities := []string{"corrected", "uncorrected"}
	return []Info{
		{
			Kind: ECCErrors, Type: Counter, Hardware: withECC, Label: "severity", Values: severities,
			Help:      "Errors of the memory since the driver was loaded. An uncorrected one ended the program that met it.",
			DCGM:      "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL, DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
			NvidiaSMI: "ecc.errors.*.volatile.total",
		},
		{
			Kind: ECCErrorsLifetime, Type: Gauge, Hardware: withECC, Label: "severity", Values: severities,
			Help:      "Errors of the memory over the life of the GPU.",
			DCGM:      "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL, DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
			NvidiaSMI: "ecc.errors.*.aggregate.total",
		},
		{
			Kind: RemappedRowsCount, Type: Gauge, Hardware: ampere, Label: "cause", Values: []string{"correctable", "uncorrectable"},
			Help:      "Rows of the memory that spare ones replaced, by the errors that were the cause.",
			DCGM:      "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS, DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
			NvidiaSMI: "remapped_rows.correctable, remapped_rows.uncorrectable",
		},
		{
			Kind: RowRemapPending, Type: Gauge, Hardware: ampere,
			Help: "1 when a row waits for the next reset of the GPU to be replaced: plan one.", NvidiaSMI: "remapped_rows.pending",
		},
		{
			Kind: RowRemapFailure, Type: Gauge, Hardware: ampere,
			Help: "1 when a row could not be replaced: the GPU is due for exchange.",
			DCGM: "DCGM_FI_DEV_ROW_REMAP_FAILURE", NvidiaSMI: "remapped_rows.failure",
		},
	}
}

func stateReadings() []Info {
	return []Info{
		{
			Kind: RecoveryAction, Type: Gauge, Hardware: recentDriver,
			Help: "What the driver asks for to make the GPU well: 0 nothing, 1 reset, 2 reboot, 3 drain peer-to-peer, 4 drain and reset, " +
				"5 recover the IMEX domain.",
			NvidiaSMI: "gpu_recovery_action",
		},
		{
			Kind: FabricState, Type: Gauge, Hardware: fabricGPU,
			Help: "How the GPU stands with the NVLink fabric: 1 not started, 2 in progress, 3 completed. Programs that use several GPUs wait for 3.",
			DCGM: "DCGM_FI_DEV_FABRIC_MANAGER_STATUS", NvidiaSMI: "fabric.state",
		},
		{
			Kind: FabricHealthy, Type: Gauge, Hardware: fabricGPU,
			Help: "1 when the GPU was registered with the NVLink fabric without an error and the driver tells of no fault there, else 0: " +
				"programs that use several GPUs fail then, or are slow. Absent while fabric_state is not 3.",
			NvidiaSMI: "fabric.status",
		},
	}
}

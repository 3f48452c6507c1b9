package gpu

import "slices"

// Kind is what a reading measures: the name of its metric less the prefix.
type Kind string

// The kinds that every device may have. The comment behind each is its label,
// where it has one.
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
	NVLinkErrors             Kind = "nvlink_errors_total" // kind
	NVLinkUp                 Kind = "nvlink_up"           // link
	XGMITransmit             Kind = "xgmi_transmit_bytes_total"
	XGMIReceive              Kind = "xgmi_receive_bytes_total"
	XGMIErrors               Kind = "xgmi_errors_total"    // severity
	ECCErrors                Kind = "ecc_errors_total"     // severity; since the driver was loaded
	ECCErrorsLifetime        Kind = "ecc_errors_aggregate" // severity
	RemappedRowsCount        Kind = "remapped_rows"        // cause
	RowRemapPending          Kind = "row_remap_pending"
	RowRemapFailure          Kind = "row_remap_failure"
	RecoveryAction           Kind = "recovery_action"
	FabricState              Kind = "fabric_state"
	FabricHealthy            Kind = "fabric_healthy"
	MemoryPower              Kind = "memory_power_watts"
	ModulePower              Kind = "module_power_watts"
	ModulePowerLimit         Kind = "module_power_limit_watts"
	NVLinkVersion            Kind = "nvlink_version"
	NVLinkTransmitPackets    Kind = "nvlink_transmit_packets_total"
	NVLinkReceivePackets     Kind = "nvlink_receive_packets_total"
	NVLinkFEC                Kind = "nvlink_fec_history_total" // bin
	NVLinkBitErrorRatio      Kind = "nvlink_bit_error_ratio"   // link
	MemoryAddressing         Kind = "memory_addressing_mode"   // mode
	Virtualization           Kind = "virtualization_mode"      // mode
	VGPULicensed             Kind = "vgpu_licensed"
	VGPULicenseExpiry        Kind = "vgpu_license_expiry_timestamp_seconds"
	GraphicsActive           Kind = "graphics_active_ratio"
	SMActive                 Kind = "sm_active_ratio"
	SMOccupancy              Kind = "sm_occupancy_ratio"
	TensorActive             Kind = "tensor_active_ratio"
	DRAMBandwidthUtilization Kind = "dram_bandwidth_utilization_ratio"
)

// MetricType is the type of the metric of a kind.
type MetricType string

// The types.
const (
	Counter MetricType = "counter" // grows until the driver is loaded again
	Gauge   MetricType = "gauge"
)

// Info describes a kind of reading, for the metrics page and the documentation.
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
	withGrace    = "modules of a GPU and a CPU of NVIDIA, such as Grace"
	nvlink5      = "NVLink 5 and later, without MIG"
)

// Readings returns every kind, in the order of a page.
func Readings() []Info {
	return slices.Concat(
		memoryReadings(), loadReadings(), unitReadings(), clockReadings(), powerReadings(),
		pcieReadings(), nvlinkReadings(), xgmiReadings(), linkQualityReadings(), eccReadings(), stateReadings(), platformReadings(),
	)
}

// ClockReasons returns the values of the label of ClockEventActive.
func ClockReasons() []string {
	var names []string
	for _, r := range clockReasons() {
		names = append(names, r.name)
	}
	return append(names, CurrentLimit, clockReasonOther)
}

// CurrentLimit is the reason for reduced clocks that only the driver of AMD tells.
const CurrentLimit = "current_limit"

// clockReasonOther is a reason that the driver has and clockReasons has not.
const clockReasonOther = "other"

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
			Help: "Memory of the GPU, including the memory reserved by the driver.",
			DCGM: "DCGM_FI_DEV_FB_TOTAL", NvidiaSMI: "memory.total",
		},
		{
			Kind: MemoryUsed, Type: Gauge, Unit: "bytes", Hardware: everyGPU,
			Help: "Memory used by programs. An inference server allocates most of it at start, so the value shows other programs rather than load. " +
				"Old drivers include the memory they reserve, and memory_reserved_bytes is then absent.",
			DCGM: "DCGM_FI_DEV_FB_USED", NvidiaSMI: "memory.used",
		},
		{
			Kind: MemoryFree, Type: Gauge, Unit: "bytes", Hardware: everyGPU,
			Help: "Free memory. Near 0 is normal with an inference server.",
			DCGM: "DCGM_FI_DEV_FB_FREE", NvidiaSMI: "memory.free",
		},
		{
			Kind: MemoryReserved, Type: Gauge, Unit: "bytes", Hardware: recentDriver,
			Help: "Memory reserved by the driver and the firmware.",
			DCGM: "DCGM_FI_DEV_FB_RESERVED", NvidiaSMI: "memory.reserved",
		},
		{
			Kind: MemoryBandwidth, Type: Gauge, Unit: "bytes per second", Hardware: "every GPU whose bandwidth is known; no MIG device, no vGPU",
			Label: "source", Values: bandwidthSources(),
			Help: "Peak bandwidth of the memory, which limits the decoding speed of one sequence. The source is the configuration, " +
				"the data sheet of the product, or a formula over memory clock and bus width.",
		},
	}
}

func loadReadings() []Info {
	return []Info{
		{
			Kind: Utilization, Type: Gauge, Unit: "ratio", Hardware: unsplitGPU,
			Help: "Ratio of time in which at least one kernel was running: 1 does not mean that the GPU is fully used.",
			DCGM: "DCGM_FI_DEV_GPU_UTIL", NvidiaSMI: "utilization.gpu",
		},
		{
			Kind: MemoryUtilization, Type: Gauge, Unit: "ratio", Hardware: unsplitGPU,
			Help: "Ratio of time in which memory was read or written at any rate: not the ratio of its bandwidth.",
			DCGM: "DCGM_FI_DEV_MEM_COPY_UTIL", NvidiaSMI: "utilization.memory",
		},
		{
			Kind: EncoderUtilization, Type: Gauge, Unit: "ratio", Hardware: "video encoder, without MIG",
			Help: "Ratio of time in which the video encoder was active.",
			DCGM: "DCGM_FI_DEV_ENC_UTIL", NvidiaSMI: "utilization.encoder",
		},
		{
			Kind: DecoderUtilization, Type: Gauge, Unit: "ratio", Hardware: "video decoder, without MIG",
			Help: "Ratio of time in which the video decoder was active.",
			DCGM: "DCGM_FI_DEV_DEC_UTIL", NvidiaSMI: "utilization.decoder",
		},
	}
}

// unitReadings are those that the driver counts in the units of a GPU (GPM).
func unitReadings() []Info {
	return []Info{
		{
			Kind: GraphicsActive, Type: Gauge, Unit: "ratio", Hardware: hopper,
			Help: "Ratio of time in which any compute or graphics program was active, since the previous poll.",
			DCGM: "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
		},
		{
			Kind: SMActive, Type: Gauge, Unit: "ratio", Hardware: hopper,
			Help: "Ratio of multiprocessors that were active, since the previous poll.",
			DCGM: "DCGM_FI_PROF_SM_ACTIVE",
		},
		{
			Kind: SMOccupancy, Type: Gauge, Unit: "ratio", Hardware: hopper,
			Help: "Ratio of resident warps to the maximum, since the previous poll.",
			DCGM: "DCGM_FI_PROF_SM_OCCUPANCY",
		},
		{
			Kind: TensorActive, Type: Gauge, Unit: "ratio", Hardware: hopper,
			Help: "Ratio of time in which tensor cores were active, since the previous poll. High in prefill, low in decode.",
			DCGM: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
		},
		{
			Kind: DRAMBandwidthUtilization, Type: Gauge, Unit: "ratio", Hardware: hopper,
			Help: "Ratio of the memory bandwidth in use, since the previous poll. High in decode, which is then limited by the memory.",
			DCGM: "DCGM_FI_PROF_DRAM_ACTIVE",
		},
	}
}

func clockReadings() []Info {
	domains := []string{string(ClockGraphics), string(ClockSM), string(ClockMemory), string(ClockVideo)}
	return []Info{
		{
			Kind: Clock, Type: Gauge, Unit: "hertz", Hardware: everyGPU, Label: "domain", Values: domains,
			Help: "Current clock. It drops when the GPU is idle.",
			DCGM: "DCGM_FI_DEV_SM_CLOCK, DCGM_FI_DEV_MEM_CLOCK", NvidiaSMI: "clocks.current.*",
		},
		{
			Kind: ClockMax, Type: Gauge, Unit: "hertz", Hardware: everyGPU, Label: "domain", Values: domains,
			Help:      "Maximum clock of the GPU.",
			NvidiaSMI: "clocks.max.*",
		},
		{
			Kind: ClockEventActive, Type: Gauge, Hardware: everyGPU, Label: "reason", Values: ClockReasons(),
			Help: "1 if this is a reason why clocks are not higher, 0 otherwise. For hardware slowdown, thermal slowdown and power brake check cooling and power; " +
				"sw_power_cap is normal under full load, and so is current_limit, which only AMD reports. other is present only while the driver reports a reason that is unknown here.",
			DCGM: "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", NvidiaSMI: "clocks_event_reasons.*",
		},
		{
			Kind: ClockEventSeconds, Type: Counter, Unit: "seconds", Hardware: recentDriver, Label: "reason",
			Values:    []string{"sw_power_cap", "sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake"},
			Help:      "Time during which clocks were reduced for this reason.",
			DCGM:      "DCGM_FI_DEV_POWER_VIOLATION, DCGM_FI_DEV_THERMAL_VIOLATION",
			NvidiaSMI: "clocks_event_reasons_counters.*",
		},
	}
}

func powerReadings() []Info {
	return []Info{
		{
			Kind: Power, Type: Gauge, Unit: "watts", Hardware: everyGPU,
			Help: "Power draw of the board: the mean over one second on Ampere and later, except A100 and A30, the current value on older GPUs.",
			DCGM: "DCGM_FI_DEV_POWER_USAGE", NvidiaSMI: "power.draw",
		},
		{
			Kind: PowerLimit, Type: Gauge, Unit: "watts", Hardware: everyGPU,
			Help: "Power limit at which the driver reduces the clocks.",
			DCGM: "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", NvidiaSMI: "enforced.power.limit",
		},
		{
			Kind: MemoryPower, Type: Gauge, Unit: "watts", Hardware: recentDriver,
			Help: "Power draw of the memory of the GPU, the mean over one second. It is part of power_watts.",
		},
		{
			Kind: ModulePower, Type: Gauge, Unit: "watts", Hardware: withGrace,
			Help:      "Power draw of the module, GPU and CPU together, the mean over one second.",
			NvidiaSMI: "module.power.draw.average",
		},
		{
			Kind: ModulePowerLimit, Type: Gauge, Unit: "watts", Hardware: withGrace,
			Help:      "Power limit of the module, which GPU and CPU share.",
			NvidiaSMI: "module.enforced.power.limit",
		},
		{
			Kind: Energy, Type: Counter, Unit: "joules", Hardware: volta,
			Help: "Energy consumed by the GPU since the driver was loaded.",
			DCGM: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
		},
		{
			Kind: Temperature, Type: Gauge, Unit: "degrees Celsius", Hardware: withHBM, Label: "sensor", Values: []string{"gpu", "junction", "memory"},
			Help: "Temperature of the chip, of the memory and, with AMD, of the hottest point of the chip (junction). AMD Instinct reports no temperature of the chip besides it; gpu is then the same.",
			DCGM: "DCGM_FI_DEV_GPU_TEMP, DCGM_FI_DEV_MEMORY_TEMP", NvidiaSMI: "temperature.gpu, temperature.memory",
		},
		{
			Kind: FanSpeed, Type: Gauge, Unit: "ratio", Hardware: withFan, Label: "fan",
			Help: "Intended fan speed relative to the maximum; it can exceed 1. A blocked fan is not visible here.",
			DCGM: "DCGM_FI_DEV_FAN_SPEED", NvidiaSMI: "fan.speed",
		},
		{
			Kind: PState, Type: Gauge, Hardware: everyGPU,
			Help: "Performance state, from 0 (fastest) to 15.",
			DCGM: "DCGM_FI_DEV_PSTATE", NvidiaSMI: "pstate",
		},
	}
}

func pcieReadings() []Info {
	const wraps = "The counter of the driver can wrap around between two polls under heavy traffic, and rates are then too low."
	return []Info{
		{
			Kind: PCIeLinkGeneration, Type: Gauge, Hardware: everyGPU,
			Help: "Current PCIe generation of the link. 1 is normal while the GPU is idle.",
			DCGM: "DCGM_FI_DEV_PCIE_LINK_GEN", NvidiaSMI: "pcie.link.gen.gpucurrent",
		},
		{
			Kind: PCIeLinkGenerationMax, Type: Gauge, Hardware: everyGPU,
			Help:      "Highest PCIe generation that both the GPU and the system support.",
			NvidiaSMI: "pcie.link.gen.max",
		},
		{
			Kind: PCIeLinkWidth, Type: Gauge, Hardware: everyGPU,
			Help: "Current number of PCIe lanes of the link. Fewer than the maximum under load indicates a bad slot, riser or contact.",
			DCGM: "DCGM_FI_DEV_PCIE_LINK_WIDTH", NvidiaSMI: "pcie.link.width.current",
		},
		{
			Kind: PCIeLinkWidthMax, Type: Gauge, Hardware: everyGPU,
			Help:      "Highest number of PCIe lanes that both the GPU and the system support.",
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
			Help: "PCIe packets that were retransmitted. A steady increase indicates a bad link.",
			DCGM: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
		},
	}
}

func nvlinkReadings() []Info {
	return []Info{
		{
			Kind: NVLinkTransmit, Type: Counter, Unit: "bytes", Hardware: withNVLink,
			Help: "Payload that the GPU sent over all its NVLinks; all data of the links if the driver does not count the payload, as with NVLink 5.",
			DCGM: "DCGM_FI_PROF_NVLINK_TX_BYTES",
		},
		{
			Kind: NVLinkReceive, Type: Counter, Unit: "bytes", Hardware: withNVLink,
			Help: "Payload that the GPU received over all its NVLinks; all data of the links if the driver does not count the payload, as with NVLink 5.",
			DCGM: "DCGM_FI_PROF_NVLINK_RX_BYTES",
		},
		{
			Kind: NVLinkErrors, Type: Counter, Hardware: "NVLink, without MIG; recoveries, and CRC errors and replays up to NVLink 4 or the other kinds from NVLink 5 on",
			Label: "kind", Values: linkErrorKinds(),
			Help: "Errors of all NVLinks of the GPU, and link recoveries. The hardware corrects them; a steady increase slows down tensor parallelism. " +
				"recovery_failed means that a link is lost.",
			DCGM: "DCGM_FI_DEV_NVLINK_*_ERROR_COUNT_TOTAL",
		},
		{
			Kind: NVLinkUp, Type: Gauge, Hardware: withNVLink, Label: "link",
			Help: "1 if the NVLink is active or in a low-power state, 0 otherwise, including links that are not connected.",
		},
	}
}

// xgmiReadings are those of AMD's links between GPUs.
func xgmiReadings() []Info {
	const instinct = "AMD Instinct with XGMI"
	return []Info{
		{
			Kind: XGMITransmit, Type: Counter, Unit: "bytes", Hardware: instinct,
			Help: "Bytes that the GPU wrote to others over all its XGMI links.",
		},
		{
			Kind: XGMIReceive, Type: Counter, Unit: "bytes", Hardware: instinct,
			Help: "Bytes that the GPU read from others over all its XGMI links.",
		},
		{
			Kind: XGMIErrors, Type: Counter, Hardware: instinct, Label: "severity", Values: []string{"corrected", "uncorrected"},
			Help: "Errors of the XGMI links since the driver was loaded. A steady increase slows down tensor parallelism.",
		},
	}
}

func eccReadings() []Info {
	severities := []string{"corrected", "uncorrected"}
	return []Info{
		{
			Kind: ECCErrors, Type: Counter, Hardware: withECC, Label: "severity", Values: severities,
			Help:      "Memory errors since the driver was loaded. An uncorrected error terminates the affected program.",
			DCGM:      "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL, DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
			NvidiaSMI: "ecc.errors.*.volatile.total",
		},
		{
			Kind: ECCErrorsLifetime, Type: Gauge, Hardware: withECC, Label: "severity", Values: severities,
			Help:      "Memory errors over the lifetime of the GPU.",
			DCGM:      "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL, DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
			NvidiaSMI: "ecc.errors.*.aggregate.total",
		},
		{
			Kind: RemappedRowsCount, Type: Gauge, Hardware: ampere, Label: "cause", Values: []string{"correctable", "uncorrectable"},
			Help:      "Memory rows that were replaced by spare rows, by the kind of error that caused it.",
			DCGM:      "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS, DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
			NvidiaSMI: "remapped_rows.correctable, remapped_rows.uncorrectable",
		},
		{
			Kind: RowRemapPending, Type: Gauge, Hardware: ampere,
			Help: "1 if a memory row will be replaced at the next reset of the GPU: plan a reset.", NvidiaSMI: "remapped_rows.pending",
		},
		{
			Kind: RowRemapFailure, Type: Gauge, Hardware: ampere,
			Help: "1 if a memory row could not be replaced: the GPU should be replaced.",
			DCGM: "DCGM_FI_DEV_ROW_REMAP_FAILURE", NvidiaSMI: "remapped_rows.failure",
		},
	}
}

func stateReadings() []Info {
	return []Info{
		{
			Kind: RecoveryAction, Type: Gauge, Hardware: recentDriver,
			Help: "Recovery action that the driver requests: 0 none, 1 reset, 2 reboot, 3 drain peer-to-peer, 4 drain and reset, " +
				"5 recover the IMEX domain.",
			NvidiaSMI: "gpu_recovery_action",
		},
		{
			Kind: FabricState, Type: Gauge, Hardware: fabricGPU,
			Help: "State of the registration with the NVLink fabric: 1 not started, 2 in progress, 3 completed. Programs that use several GPUs wait for 3.",
			DCGM: "DCGM_FI_DEV_FABRIC_MANAGER_STATUS", NvidiaSMI: "fabric.state",
		},
		{
			Kind: FabricHealthy, Type: Gauge, Hardware: fabricGPU,
			Help: "1 if the GPU was registered with the NVLink fabric without an error and the driver reports no fault of the fabric, 0 otherwise: " +
				"programs that use several GPUs then fail or are slow. Absent while fabric_state is not 3.",
			NvidiaSMI: "fabric.status",
		},
	}
}

package gpu

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

package gpu

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

package gpu

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

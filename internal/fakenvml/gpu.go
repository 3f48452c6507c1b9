package fakenvml

// gpu is what every GPU of Machine answers, beside its identity.
var gpu = map[string]string{
	"name": "Fake GPU", "compute_capability": "9.0",
	"memory_total": "85520809984", "memory_used": "60000000000", "memory_free": "24983938304", "memory_reserved": "536871680",
	"memory_bus_width": "5120", "utilization": "87", "memory_utilization": "41",
	"encoder_utilization": "3", "decoder_utilization": "4",
	"clock_graphics": "1755", "clock_sm": "1740", "clock_memory": "2619", "clock_video": "1545",
	"clock_graphics_max": "1980", "clock_sm_max": "1975", "clock_memory_max": "2620", "clock_video_max": "1546",
	"power_usage": "412345", "power_limit": "700000", "energy": "9876543210123",
	"temperature": "54", "fans": "2", "fan0": "33", "fan1": "104", "pstate": "0",
	"pcie_generation": "4", "pcie_width": "8", "pcie_generation_max": "5", "pcie_width_max": "16", "pcie_replays": "7",
	"ecc_corrected": "11", "ecc_uncorrected": "12", "ecc_corrected_lifetime": "13", "ecc_uncorrected_lifetime": "14",
	"remapped_rows": "1 2 1 0", "clock_event_reasons": "36", "fabric_state": "3",
	"mig_mode": "0", "mig_slots": "7", "event_types": "8", "gpm_supported": "1",
	"field82.0": "uint32 61",
}

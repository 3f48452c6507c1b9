package gpu

import "slices"

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

package gpu

import (
	"cmp"
	_ "embed"
	"math"
	"strings"
	"sync"

	"github.com/inference-exporter/inference_exporter/internal/asset"
)

// Kind is what a reading measures: the name of its metric less the prefix. The kinds are those of readings.yml.
type Kind string

// The kinds that code names.
const (
	MemoryTotal              Kind = "memory_total_bytes"
	MemoryUsed               Kind = "memory_used_bytes"
	MemoryFree               Kind = "memory_free_bytes"
	MemoryReserved           Kind = "memory_reserved_bytes"
	MemoryBandwidth          Kind = "memory_bandwidth_bytes_per_second"
	PeakFLOPS                Kind = "peak_flops"
	Utilization              Kind = "utilization_ratio"
	Clock                    Kind = "clock_hertz"
	ClockMax                 Kind = "clock_max_hertz"
	Power                    Kind = "power_watts"
	PowerLimit               Kind = "power_limit_watts"
	Energy                   Kind = "energy_joules_total"
	Temperature              Kind = "temperature_celsius"
	FanSpeed                 Kind = "fan_speed_ratio"
	ClockEventActive         Kind = "clock_event_active"
	PCIeLinkGeneration       Kind = "pcie_link_generation"
	PCIeLinkGenerationMax    Kind = "pcie_link_generation_max"
	PCIeLinkWidth            Kind = "pcie_link_width"
	PCIeLinkWidthMax         Kind = "pcie_link_width_max"
	NVLinkErrors             Kind = "nvlink_errors_total"
	XGMITransmit             Kind = "xgmi_transmit_bytes_total"
	XGMIReceive              Kind = "xgmi_receive_bytes_total"
	XGMIErrors               Kind = "xgmi_errors_total"
	ECCErrors                Kind = "ecc_errors_total"
	RowRemapPending          Kind = "row_remap_pending"
	RowRemapFailure          Kind = "row_remap_failure"
	RecoveryAction           Kind = "recovery_action"
	FabricHealthy            Kind = "fabric_healthy"
	NVLinkVersion            Kind = "nvlink_version"
	MemoryAddressing         Kind = "memory_addressing_mode"
	Virtualization           Kind = "virtualization_mode"
	ConfidentialComputing    Kind = "confidential_computing_mode"
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

const (
	Counter MetricType = "counter" // grows until the driver is loaded again
	Gauge   MetricType = "gauge"
)

// Info describes a kind of reading, for the metrics page and the documentation.
type Info struct {
	Kind     Kind       `yaml:"kind"`
	Type     MetricType `yaml:"-"`        // as its name says
	Label    string     `yaml:"label"`    // the name of the kind's own label; "" where it has none
	Values   []string   `yaml:"values"`   // the closed set of the label; nil for the numbers of fans and of links
	Help     string     `yaml:"help"`     // for the reader who is on call
	Unit     string     `yaml:"unit"`     // the base unit; "" for states and plain numbers
	Hardware string     `yaml:"hardware"` // which GPUs have it
	// DCGM, NvidiaSMI and AMDGPU are the names that the same reading has in DCGM, in nvidia-smi --query-gpu and among
	// the files of amdgpu; "" is none, or unknown. Their units differ.
	DCGM      string `yaml:"dcgm"`
	NvidiaSMI string `yaml:"nvidia_smi"`
	AMDGPU    string `yaml:"amdgpu"`

	NVML []NVMLSource `yaml:"nvml"` // the better one first
}

// NVMLSource is where NVML has a reading. The head of readings.yml describes the keys.
type NVMLSource struct {
	Ask           string   `yaml:"ask"`
	Number        int      `yaml:"number"`
	Each          bool     `yaml:"each"`
	Bits          []string `yaml:"bits"`
	Field         int      `yaml:"field"`
	Scope         uint32   `yaml:"scope"`
	UnitCounter   int      `yaml:"unit_counter"`
	As            string   `yaml:"as"`
	Times         float64  `yaml:"times"`
	Per           float64  `yaml:"per"`
	Positive      bool     `yaml:"positive"`
	BitErrorRatio bool     `yaml:"bit_error_ratio"`
	Links         string   `yaml:"links"`
	C2C           bool     `yaml:"c2c"`
	Slow          bool     `yaml:"slow"`
	Unsplit       bool     `yaml:"unsplit"`
}

//go:embed readings.yml
var readingsFile []byte

// Readings returns every kind, in the order of a page. They are not to be changed.
func Readings() []Info { return table() }

var table = sync.OnceValue(func() (all []Info) {
	asset.Decode("readings.yml", readingsFile, &all)
	for i := range all {
		info := &all[i]
		info.Type = Gauge
		if strings.HasSuffix(string(info.Kind), "_total") {
			info.Type = Counter
		}
		for j := range info.NVML {
			s := &info.NVML[j]
			s.Times, s.Per = cmp.Or(s.Times, 1), cmp.Or(s.Per, 1)
		}
	}
	return all
})

// in returns a value of the driver in the unit of the reading.
func (s *NVMLSource) in(v float64) float64 {
	switch {
	case s.Positive:
		return flag(v != 0)
	case s.BitErrorRatio:
		return bitErrorRatio(v)
	}
	return v * s.Times / s.Per
}

func flag(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

// noBitErrors is how the driver reports a link without errors: as 15e-255, the smallest ratio that it can.
const noBitErrors = 0xfff

// bitErrorRatio decodes a ratio m * 10^-e, with e in the bits 0 to 7 and m in the bits 8 to 11.
func bitErrorRatio(v float64) float64 {
	if v < 0 || v > math.MaxUint32 {
		return math.NaN()
	}
	bits := uint32(v)
	if bits&0xfff == noBitErrors {
		return 0
	}
	return float64(bits>>8&0xf) * math.Pow(10, -float64(bits&0xff))
}

// otherReason is a bit of the driver that has no name.
const otherReason = "other"

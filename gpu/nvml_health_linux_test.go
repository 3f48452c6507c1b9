//go:build linux && cgo

package gpu

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// The masks are composed by hand of the two bits for each of bandwidth (0), route
// recovery (2), route health (4) and recovery of time-outs (6), of which 1 is bad
// and 2 good; of four bits for the configuration (8), of which 1 is good; and
// of two for the partition (12).
func TestFabricHealth(t *testing.T) {
	const allGood = 2 | 2<<2 | 2<<4 | 2<<6 | 1<<8 | 1<<12
	for _, tt := range []struct {
		name string
		info nvml.GpuFabricInfo_v3
		want bool
	}{
		{"nothing is told", nvml.GpuFabricInfo_v3{}, true},
		{"all is good", nvml.GpuFabricInfo_v3{HealthMask: allGood, HealthSummary: 1}, true},
		{"unknown error", nvml.GpuFabricInfo_v3{Status: 999}, false},
		{"error of all that is good", nvml.GpuFabricInfo_v3{Status: 3, HealthMask: allGood, HealthSummary: 1}, false},
		{"bandwidth", nvml.GpuFabricInfo_v3{HealthMask: 1}, false},
		{"route recovery", nvml.GpuFabricInfo_v3{HealthMask: 1 << 2}, false},
		{"route", nvml.GpuFabricInfo_v3{HealthMask: 1 << 4}, false},
		{"time-outs", nvml.GpuFabricInfo_v3{HealthMask: 1 << 6}, false},
		{"good configuration", nvml.GpuFabricInfo_v3{HealthMask: 1 << 8}, true},
		{"wrong system", nvml.GpuFabricInfo_v3{HealthMask: 2 << 8}, false},
		{"invalid state", nvml.GpuFabricInfo_v3{HealthMask: 8 << 8}, false},
		{"one fault of all that is good", nvml.GpuFabricInfo_v3{HealthMask: allGood - 1}, false},
		{"no partition", nvml.GpuFabricInfo_v3{HealthMask: 2 << 12}, true},
		{"summary: unhealthy", nvml.GpuFabricInfo_v3{HealthSummary: 2}, false},
		{"summary: limited", nvml.GpuFabricInfo_v3{HealthSummary: 3}, false},
	} {
		tt.info.State = 3
		if got := fabric(tt.info); got != (Fabric{State: 3, Healthy: tt.want}) {
			t.Errorf("%s: %+v, want %t", tt.name, got, tt.want)
		}
		older := nvml.GpuFabricInfo_v2{State: tt.info.State, Status: tt.info.Status, HealthMask: tt.info.HealthMask, CliqueId: 1}
		tt.info.HealthSummary = 0 // the older form does not tell it
		if got := newerFabric(older); got != tt.info {
			t.Errorf("%s, older form: %+v, want %+v", tt.name, got, tt.info)
		}
	}
}

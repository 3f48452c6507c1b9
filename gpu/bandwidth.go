package gpu

import "regexp"

// The values of the label of MemoryBandwidth: where the value is from.
const (
	sourceConfig  = "config"
	sourceTable   = "table"
	sourceFormula = "formula"
)

// virtualName is how the driver calls a vGPU: by the name of its profile, as in "GRID A100D-40C" or "NVIDIA L40S-24Q".
// Its share of the bandwidth is unknown.
var virtualName = regexp.MustCompile(`\bGRID\b|-\d+[ABCQ](ME)?$`)

// bandwidth returns the memory bandwidth of a GPU in bytes per second, and where it is from: configured, by UUID; of
// the data sheet; or computed from the highest memory clock (MHz) and the width of the memory bus (bits), 0 for
// unknown.
func bandwidth(configured map[string]float64, uuid, name string, clock, width int) (value float64, source string, ok bool) {
	if value, ok := configured[uuid]; ok {
		return value, sourceConfig, true
	}
	if virtualName.MatchString(name) {
		return 0, "", false
	}
	if value, ok := ProductBandwidth(name); ok {
		return value, sourceTable, true
	}
	if clock <= 0 || width <= 0 {
		return 0, "", false
	}
	// The driver gives half the data rate, for HBM and GDDR alike.
	return 2 * float64(clock) * 1e6 * float64(width) / 8, sourceFormula, true
}

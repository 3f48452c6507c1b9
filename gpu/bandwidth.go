package gpu

import (
	"regexp"
	"slices"
	"strings"
)

// The values of the label of MemoryBandwidth: where the value is from.
const (
	sourceConfig  = "config"
	sourceTable   = "table"
	sourceFormula = "formula"
)

// virtualName is how the driver calls a vGPU: by the name of its profile, as in
// "GRID A100D-40C" or "NVIDIA L40S-24Q". Its share of the bandwidth is unknown.
var virtualName = regexp.MustCompile(`\bGRID\b|-\d+[ABCQ](ME)?$`)

// DecodeCeiling returns how many tokens per second one sequence can be given at
// most when each token takes a read of bytesPerToken from memory: the weights
// that are active, in the type they are stored in, and the KV cache of the
// sequence. bandwidth, in bytes per second, is that of all GPUs of the tensor
// parallel group together. Servers reach 60 to 85 % of it at best; a batch
// shares the reads of the weights and gets more tokens in sum. It is 0,
// unknown, unless both are positive.
func DecodeCeiling(bandwidth, bytesPerToken float64) float64 {
	if !(bandwidth > 0 && bytesPerToken > 0) {
		return 0
	}
	return bandwidth / bytesPerToken
}

// ProductBandwidth returns the memory bandwidth that the data sheet of a
// product gives. The name is that of the driver or as people write it:
// "NVIDIA H100 80GB HBM3", "H100 SXM", "a100-80gb". It is not ok for a name
// that no product has or that leaves open which one it is.
func ProductBandwidth(name string) (bytesPerSecond float64, ok bool) {
	words := nameWords(name)
	for _, p := range products() {
		need, may := strings.Fields(p.need), strings.Fields(p.may)
		// A word that the row does not have belongs to another product.
		other := slices.ContainsFunc(words, func(w string) bool {
			return !slices.Contains(need, w) && !slices.Contains(may, w)
		})
		if !other && containsAll(words, need) {
			return p.gigabytes * 1e9, true
		}
	}
	return 0, false
}

// Products returns the names of the products that ProductBandwidth knows.
func Products() []string {
	var names []string
	for _, p := range products() {
		if !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// nameWords returns the words of the name of a product in lower case, without
// those that do not distinguish products.
func nameWords(name string) []string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9')
	})
	return slices.DeleteFunc(words, func(w string) bool {
		return slices.Contains([]string{"nvidia", "amd", "instinct", "radeon", "oam", "tesla", "geforce", "quadro", "gpu", "tensor", "core"}, w)
	})
}

func containsAll(words, all []string) bool {
	return !slices.ContainsFunc(all, func(w string) bool { return !slices.Contains(words, w) })
}

// bandwidth returns the memory bandwidth of a GPU in bytes per second, and
// where it is from: configured, by UUID; of the data sheet; or computed from the
// highest memory clock (MHz) and the width of the memory bus (bits), 0 for
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

// product is a row of the table of memory bandwidths. Where a product has
// several names, it has several rows.
type product struct {
	name      string  // as people know it
	gigabytes float64 // 10^9 bytes per second, of the data sheet
	need      string  // words that the name must have
	may       string  // words that it may have as well
}

func products() []product {
	return slices.Concat(dataCenterProducts(), boardProducts(), amdProducts())
}

// amdProducts are those of AMD, by its data sheets. MI250X and MI250 are two GPUs each,
// and this is the bandwidth of one.
func amdProducts() []product {
	return []product{
		{"MI355X", 8000, "mi355x", "288gb hbm3e"},
		{"MI350X", 8000, "mi350x", "288gb hbm3e"},
		{"MI325X", 6000, "mi325x", "256gb hbm3e"},
		{"MI300X", 5300, "mi300x", "192gb hbm3"},
		{"MI300A", 5300, "mi300a", "128gb hbm3"},
		{"MI250X", 1638, "mi250x", "128gb hbm2e"},
		{"MI250", 1638, "mi250", "128gb hbm2e"},
		{"MI210", 1638, "mi210", "64gb hbm2e"},
		{"MI100", 1229, "mi100", "32gb hbm2"},
		{"RX 7900 XTX", 960, "rx 7900 xtx", "24gb"},
		{"RX 7900 XT", 800, "rx 7900 xt", "20gb"},
		{"RX 7900 GRE", 576, "rx 7900 gre", "16gb"},
		{"RX 7800 XT", 624, "rx 7800 xt", "16gb"},
		{"RX 9070 XT", 640, "rx 9070 xt", "16gb"},
		{"RX 9070", 640, "rx 9070", "16gb"},
		{"PRO W7900", 864, "pro w7900", "48gb"},
		{"PRO W7800", 576, "pro w7800", "32gb"},
		{"AI PRO R9700", 640, "ai pro r9700", "32gb"},
		{"RX 6900 XT", 512, "rx 6900 xt", "16gb"},
	}
}

func dataCenterProducts() []product {
	const sxm = "sxm sxm4 sxm5 sxm6"
	return []product{
		{"GB300", 8000, "gb300", "nvl nvl72"},
		{"B300", 8000, "b300", sxm + " ac"},
		{"GB200", 8000, "gb200", "nvl nvl4 nvl72"},
		{"B200", 8000, "b200", sxm},
		{"GH200 144GB", 4900, "gh200 144g", "hbm3e"},
		{"GH200 144GB", 4900, "gh200 144gb", "hbm3e"},
		{"GH200 96GB", 4000, "gh200 480gb", "hbm3"}, // the driver names the memory of the CPU
		{"GH200 96GB", 4000, "gh200 96gb", "hbm3"},
		{"H200 SXM", 4800, "h200", sxm + " 141gb hbm3e"},
		{"H200 NVL", 4800, "h200 nvl", "141gb hbm3e"},
		{"H100 SXM", 3350, "h100 sxm", "80gb hbm3"},
		{"H100 SXM", 3350, "h100 sxm5", "80gb hbm3"},
		{"H100 SXM", 3350, "h100 80gb hbm3", ""},
		{"H100 PCIe", 2000, "h100 pcie", "80gb hbm2e"},
		{"H100 NVL", 3900, "h100 nvl", "94gb hbm3"},
		{"H800 SXM", 3350, "h800 sxm", "80gb hbm3"},
		{"H800 SXM", 3350, "h800 sxm5", "80gb hbm3"},
		{"H800 PCIe", 2000, "h800 pcie", "80gb hbm2e"},
		{"H20", 4000, "h20", "96gb hbm3"},
		{"A100 40GB", 1555, "a100 40gb", sxm + " pcie hbm2"},
		{"A100 80GB SXM", 2039, "a100 80gb", sxm + " hbm2e"},
		{"A100 80GB PCIe", 1935, "a100 80gb pcie", "hbm2e"},
		{"A800 80GB SXM", 2039, "a800 80gb", sxm + " hbm2e"},
		{"A800 80GB PCIe", 1935, "a800 80gb pcie", "hbm2e"},
		{"A30", 933, "a30", "24gb pcie hbm2"},
		{"A40", 696, "a40", "48gb pcie"},
		{"A10", 600, "a10", "24gb pcie"},
		{"A10G", 600, "a10g", "24gb"},
		{"A16", 200, "a16", "16gb pcie"}, // each of its four GPUs
		{"A2", 200, "a2", "16gb pcie"},
		{"L40S", 864, "l40s", "48gb pcie"},
		{"L40", 864, "l40", "48gb pcie"},
		{"L20", 864, "l20", "48gb pcie"},
		{"L4", 300, "l4", "24gb pcie"},
		{"T4", 320, "t4", "16gb pcie"},
		{"T4G", 320, "t4g", "16gb"},
		{"V100", 900, "v100", "sxm sxm2 pcie 16gb 32gb hbm2"},
		{"V100S", 1134, "v100s", "pcie 32gb hbm2"},
		{"P40", 346, "p40", "24gb pcie"},
		{"GB10", 273, "gb10", "dgx spark"},
	}
}

func boardProducts() []product {
	return []product{
		{"RTX PRO 6000 Blackwell", 1792, "rtx pro 6000 blackwell", "workstation edition max q 96gb"},
		{"RTX PRO 6000 Blackwell Server Edition", 1597, "rtx pro 6000 blackwell server", "edition 96gb"},
		{"RTX PRO 5000 Blackwell", 1344, "rtx pro 5000 blackwell", "48gb 72gb"},
		{"RTX PRO 4500 Blackwell", 896, "rtx pro 4500 blackwell", "32gb"},
		{"RTX 6000 Ada", 960, "rtx 6000 ada", "generation 48gb"},
		{"RTX 5000 Ada", 576, "rtx 5000 ada", "generation 32gb"},
		{"RTX A6000", 768, "rtx a6000", "48gb"},
		{"RTX A5000", 768, "rtx a5000", "24gb"},
		{"RTX A4000", 448, "rtx a4000", "16gb"},
		{"RTX 8000", 672, "rtx 8000", "48gb"},
		{"TITAN RTX", 672, "titan rtx", "24gb"},
		{"RTX 5090", 1792, "rtx 5090", "32gb"},
		{"RTX 5080", 960, "rtx 5080", "16gb"},
		{"RTX 5070 Ti", 896, "rtx 5070 ti", "16gb"},
		{"RTX 5070", 672, "rtx 5070", "12gb"},
		{"RTX 4090", 1008, "rtx 4090", "24gb"},
		{"RTX 4090 D", 1008, "rtx 4090 d", "24gb"},
		{"RTX 4080 SUPER", 736, "rtx 4080 super", "16gb"},
		{"RTX 4080", 717, "rtx 4080", "16gb"},
		{"RTX 4070 Ti SUPER", 672, "rtx 4070 ti super", "16gb"},
		{"RTX 3090 Ti", 1008, "rtx 3090 ti", "24gb"},
		{"RTX 3090", 936, "rtx 3090", "24gb"},
		{"RTX 2080 Ti", 616, "rtx 2080 ti", "11gb"},
	}
}

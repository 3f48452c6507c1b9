package gpu

import (
	_ "embed"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/asset"
)

// product is a row of products.yml, which describes it.
type product struct {
	Name      string             `yaml:"name"`
	Gigabytes float64            `yaml:"gigabytes"`
	Tera      map[string]float64 `yaml:"tera"`
	Need      string             `yaml:"need"`
	May       string             `yaml:"may"`
}

//go:embed products.yml
var productsFile []byte

var products = asset.Once[[]product]("products.yml", productsFile)

// findProduct returns the product of a name: that of the driver or as people write it, such as "NVIDIA H100 80GB HBM3",
// "H100 SXM", "a100-80gb". It is not ok for a name that no product has or that leaves open which one it is.
func findProduct(name string) (p product, ok bool) {
	words := nameWords(name)
	for _, p := range products() {
		need, may := strings.Fields(p.Need), strings.Fields(p.May)
		// A word that the row does not have belongs to another product.
		other := slices.ContainsFunc(words, func(w string) bool {
			return !slices.Contains(need, w) && !slices.Contains(may, w)
		})
		lacks := slices.ContainsFunc(need, func(w string) bool { return !slices.Contains(words, w) })
		if !other && !lacks {
			return p, true
		}
	}
	return product{}, false
}

// ProductBandwidth returns the memory bandwidth that the data sheet of a product gives. It is not ok for a name that
// leaves open which product it is.
func ProductBandwidth(name string) (bytesPerSecond float64, ok bool) {
	p, ok := findProduct(name)
	return p.Gigabytes * 1e9, ok
}

// ProductPeak returns how many operations per second the matrix units of a product do at most in a number format, as
// the configuration names it: 0 where they do not multiply it. It is not ok where the table does not say.
func ProductPeak(name, precision string) (operationsPerSecond float64, ok bool) {
	p, _ := findProduct(name)
	if len(p.Tera) == 0 || precision == "" || precision == "fp32" {
		return 0, false
	}
	tera := p.Tera[precision]
	switch precision {
	case "fp16":
		tera = max(tera, p.Tera["bf16"])
	case "mxfp8": // who multiplies blocks of 4 bits multiplies those of 8
		if p.Tera["fp4"]+p.Tera["mxfp4"] > 0 {
			tera = p.Tera["fp8"]
		}
	case "mxfp4", "nvfp4":
		tera = max(tera, p.Tera["fp4"])
	}
	return tera * 1e12, !math.IsNaN(tera)
}

// addPeaks adds how fast a product multiplies each number format that its data sheet has.
func addPeaks(out *readings, name string) {
	p, _ := findProduct(name)
	for _, precision := range slices.Sorted(maps.Keys(p.Tera)) {
		out.add(PeakFLOPS, precision, p.Tera[precision]*1e12)
	}
}

// Products returns the names of the products that are known.
func Products() []string {
	var names []string
	for _, p := range products() {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// nameWords returns the words of the name of a product in lower case, without those that do not distinguish products.
func nameWords(name string) []string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9')
	})
	return slices.DeleteFunc(words, func(w string) bool {
		return slices.Contains([]string{"nvidia", "amd", "instinct", "radeon", "oam", "tesla", "geforce", "quadro", "gpu", "tensor", "core"}, w)
	})
}

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

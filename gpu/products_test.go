package gpu

import (
	"maps"
	"slices"
	"testing"
)

// The values are those of the data sheets in 10^12 operations per second, of those that name sparsity a half; 0 is a
// number format that the matrix units do not multiply, -1 unknown.
func TestProductPeak(t *testing.T) {
	for _, tt := range []struct {
		name, precision string
		want            float64
	}{
		{"NVIDIA H100 80GB HBM3", "bf16", 1979.0 / 2},
		{"NVIDIA H100 80GB HBM3", "fp16", 1979.0 / 2},
		{"NVIDIA H100 80GB HBM3", "fp8", 3958.0 / 2},
		{"NVIDIA H100 PCIe", "fp8", 3026.0 / 2},
		{"NVIDIA H200 NVL", "bf16", 1671.0 / 2},
		// Hopper has neither FP4 nor blocks with scales of their own, Ampere no FP8, Turing no bfloat16.
		{"NVIDIA H100 80GB HBM3", "nvfp4", 0},
		{"NVIDIA H100 80GB HBM3", "mxfp8", 0},
		{"NVIDIA A100-SXM4-80GB", "fp8", 0},
		{"NVIDIA A100-SXM4-80GB", "int8", 624},
		{"Tesla T4", "bf16", 0},
		{"Tesla T4", "fp16", 65},
		// HGX B200: 8 GPUs have 72 PFLOPS of FP4, 72 of FP8 with sparsity. GB300 NVL72: 72 GPUs have 1080 of FP4.
		{"NVIDIA B200", "nvfp4", 72000.0 / 8},
		{"NVIDIA B200", "mxfp4", 72000.0 / 8},
		{"NVIDIA B200", "mxfp8", 72000.0 / 8 / 2},
		{"NVIDIA GB300", "fp4", 1080000.0 / 72},
		// The blocks of CDNA 4 are those of OCP, not NVIDIA's.
		{"AMD Instinct MI355X", "mxfp4", 10066.3},
		{"AMD Instinct MI355X", "nvfp4", 0},
		{"AMD Instinct MI300X", "fp8", 2614.9},
		{"NVIDIA H100 80GB HBM3", "fp32", -1},
		{"NVIDIA H100 80GB HBM3", "", -1},
		{"Tesla P40", "int8", -1},
		{"Abacus 3", "bf16", -1},
		{"", "bf16", -1},
	} {
		got, ok := ProductPeak(tt.name, tt.precision)
		if ok != (tt.want >= 0) || got != max(tt.want, 0)*1e12 {
			t.Errorf("%s in %s: %v, %v; want %v", tt.name, tt.precision, got/1e12, ok, tt.want)
		}
	}
}

// The number formats are those of the label, a product with several rows has the same in each, and narrower formats of one
// kind are not slower.
func TestPeaks(t *testing.T) {
	seen := map[string]map[string]float64{}
	for _, p := range products() {
		for precision := range p.Tera {
			if !slices.Contains(Readings()[slices.IndexFunc(Readings(), func(i Info) bool { return i.Kind == PeakFLOPS })].Values, precision) {
				t.Errorf("%s: %q is no number format of the label", p.Name, precision)
			}
		}
		for _, order := range [][]string{{"bf16", "fp8", "fp4"}, {"bf16", "fp8", "mxfp4"}, {"int8", "int4"}} {
			last := 0.0
			for _, precision := range order {
				if v, ok := p.Tera[precision]; ok {
					if v < last {
						t.Errorf("%s: %s is slower than a wider format: %v", p.Name, precision, p.Tera)
					}
					last = v
				}
			}
		}
		if other, ok := seen[p.Name]; ok && !maps.Equal(other, p.Tera) {
			t.Errorf("%s has %v and %v", p.Name, other, p.Tera)
		}
		seen[p.Name] = p.Tera
	}
}

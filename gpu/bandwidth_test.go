package gpu

import (
	"slices"
	"strings"
	"testing"
)

// The names are those that the driver gives and some that people write; the
// values are those of the data sheets, in 10^9 bytes per second; 0 is none.
func TestProductBandwidth(t *testing.T) {
	for name, want := range map[string]float64{
		"NVIDIA H100 80GB HBM3":          3350,
		"NVIDIA H100 PCIe":               2000,
		"NVIDIA H100 NVL":                3900,
		"H100 SXM":                       3350,
		"h100-sxm":                       3350,
		"H100_SXM5_80GB":                 3350,
		"NVIDIA H100 SXM5 80GB HBM3":     3350,
		"H100 Tensor Core GPU, PCIe":     2000,
		"NVIDIA H200":                    4800,
		"NVIDIA H200 NVL":                4800,
		"NVIDIA H20":                     4000,
		"NVIDIA GH200 480GB":             4000,
		"NVIDIA GH200 144G HBM3e":        4900,
		"NVIDIA B200":                    8000,
		"NVIDIA GB200":                   8000,
		"NVIDIA A100-SXM4-80GB":          2039,
		"NVIDIA A100 80GB PCIe":          1935,
		"A100 80GB":                      2039,
		"NVIDIA A100-SXM4-40GB":          1555,
		"A100-PCIE-40GB":                 1555,
		"NVIDIA A10":                     600,
		"NVIDIA A10G":                    600,
		"NVIDIA A30":                     933,
		"NVIDIA A40":                     696,
		"NVIDIA L4":                      300,
		"NVIDIA L40":                     864,
		"NVIDIA L40S":                    864,
		"Tesla T4":                       320,
		"Tesla V100-SXM2-16GB":           900,
		"Tesla V100-PCIE-32GB":           900,
		"Tesla V100S-PCIE-32GB":          1134,
		"NVIDIA GeForce RTX 3090":        936,
		"NVIDIA GeForce RTX 3090 Ti":     1008,
		"NVIDIA GeForce RTX 4090":        1008,
		"NVIDIA GeForce RTX 4080 SUPER":  736,
		"NVIDIA GeForce RTX 5090":        1792,
		"rtx 4090":                       1008,
		"NVIDIA RTX 6000 Ada Generation": 960,
		"NVIDIA RTX A6000":               768,
		"NVIDIA RTX PRO 6000 Blackwell Workstation Edition":       1792,
		"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": 1792,
		"NVIDIA RTX PRO 6000 Blackwell Server Edition":            1597,
		"NVIDIA RTX PRO 5000 Blackwell":                           1344,
		"NVIDIA RTX PRO 5000 72GB Blackwell":                      1344,
		"NVIDIA RTX PRO 4500 Blackwell":                           896,
		"NVIDIA GB300":                                            8000,
		"NVIDIA B300 SXM6 AC":                                     8000,
		"NVIDIA GB10":                                             273,
		// Names that leave open which product it is, and products of other memory.
		"": 0, "H100": 0, "H100 80GB": 0, "A100": 0, "NVIDIA": 0, "RTX": 0, "H300": 0,
		"NVIDIA A100-SXM-64GB":               0,
		"NVIDIA GeForce RTX 4090 Laptop GPU": 0,
		"NVIDIA RTX A4000 Laptop GPU":        0,
		"NVIDIA RTX 4000 SFF Ada Generation": 0,
		"Quadro RTX 6000":                    0,
		"NVIDIA A100X":                       0,
		"NVIDIA A10-24Q":                     0,
		"Simulated H100":                     0,
	} {
		got, ok := ProductBandwidth(name)
		if got != want*1e9 || ok != (want != 0) {
			t.Errorf("%q: %v, %v; want %v", name, got/1e9, ok, want)
		}
	}
}

// Every name that the list shows is known, and has one value.
func TestProducts(t *testing.T) {
	if names := Products(); len(names) < 40 || !slices.Contains(names, "H100 SXM") {
		t.Errorf("%d products: %v", len(names), names)
	}
	values, needs := map[string]float64{}, map[string]bool{}
	for _, p := range products() {
		if got, ok := ProductBandwidth(p.Name); !ok || got != p.Gigabytes*1e9 {
			t.Errorf("%q: %v, %v; the table says %v", p.Name, got/1e9, ok, p.Gigabytes)
		}
		if v, seen := values[p.Name]; seen && v != p.Gigabytes {
			t.Errorf("%q has two values", p.Name)
		}
		if needs[p.Need] {
			t.Errorf("two rows need %q", p.Need)
		}
		if got, ok := ProductBandwidth(p.Need + " " + p.May); !ok || got != p.Gigabytes*1e9 {
			t.Errorf("%q with all its words: %v, %v; the table says %v", p.Name, got/1e9, ok, p.Gigabytes)
		}
		values[p.Name], needs[p.Need] = p.Gigabytes, true
	}
}

func TestBandwidth(t *testing.T) {
	configured := map[string]float64{"GPU-1": 1, "A100": 9, "": 9}
	for _, test := range []struct {
		uuid, name   string
		clock, width int
		want         float64
		source       string
	}{
		{"GPU-1", "NVIDIA A100-SXM4-80GB", 1593, 5120, 1, "config"},
		{"GPU-2", "NVIDIA A100-SXM4-80GB", 1593, 5120, 2039e9, "table"}, // a part of the name does not match
		{"GPU-2", "NVIDIA H200", 3201, 6144, 4.8e12, "table"},
		// 2 * 9001e6 / s * 256 bit / 8
		{"GPU-2", "NVIDIA GeForce RTX 4090 Laptop GPU", 9001, 256, 576.064e9, "formula"},
		// 2 * 7751e6 / s * 256 bit / 8
		{"GPU-2", "NVIDIA GeForce RTX 2080 SUPER", 7751, 256, 496.064e9, "formula"},
		{"GPU-2", "NVIDIA GeForce RTX 2080 SUPER", 0, 256, 0, ""},
		{"GPU-2", "NVIDIA GeForce RTX 2080 SUPER", 7751, 0, 0, ""},
		{"GPU-1", "GRID A100D-40C", 1593, 5120, 1, "config"},
		{"GPU-2", "GRID V100-8Q", 877, 4096, 0, ""},
		{"GPU-2", "NVIDIA L40S-24Q", 9001, 384, 0, ""},
		{"GPU-2", "NVIDIA H100L-1-12CME", 2619, 5120, 0, ""},
		{"GPU-2", "NVIDIA A40-48A", 7251, 384, 0, ""},
	} {
		got, source, ok := bandwidth(configured, test.uuid, test.name, test.clock, test.width)
		if got != test.want || source != test.source || ok != (test.source != "") {
			t.Errorf("%s %s: %v, %q, %v; want %v, %q", test.uuid, test.name, got, source, ok, test.want, test.source)
		}
	}
}

func FuzzProductBandwidth(f *testing.F) {
	for _, name := range Products() {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, ok := ProductBandwidth(name)
		if ok != (got > 0) {
			t.Errorf("%q: %v, %v", name, got, ok)
		}
		for _, other := range []string{"NVIDIA " + name, strings.ReplaceAll(name, " ", "-")} {
			if same, _ := ProductBandwidth(other); same != got {
				t.Errorf("%q: %v, %q: %v", name, got, other, same)
			}
		}
	})
}

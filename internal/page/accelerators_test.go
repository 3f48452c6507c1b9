package page

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/gpu"
)

// goldenDevices is what is to be read from a page. A key of readings is KIND or KIND{LABEL}, one of
// parts is the number and the profile.
type goldenDevices struct {
	Software string
	Driver   string
	Devices  []goldenDevice
}

type goldenDevice struct {
	UUID, Vendor, Host, Name string
	Index                    int
	PCIBusID                 string `yaml:"pci_bus_id"`
	XIDs                     map[uint64]uint64
	Readings                 map[string]float64
	Parts                    map[string]map[string]float64
}

func acceleratorMappings(t testing.TB) *Mappings {
	t.Helper()
	all := NewMappings(Accelerators, nil)
	return all
}

// readOn reads a page of a host that no page names.
func readOn(r *Reader, text []byte, at time.Time) (*Snapshot, error) {
	return r.Read(text, textFormat, at, Want{Host: "host.example"})
}

func readingsOf(readings []gpu.Reading) map[string]float64 {
	all := map[string]float64{}
	for _, r := range readings {
		key := string(r.Kind)
		if r.Label != "" {
			key += "{" + r.Label + "}"
		}
		all[key] = r.Value
	}
	return all
}

func goldenOf(s *Snapshot) goldenDevices {
	got := goldenDevices{Software: s.Engine}
	for _, d := range s.Devices {
		g := goldenDevice{
			UUID: d.UUID, Vendor: string(d.Vendor), Host: d.Host, Index: d.Index, Name: d.Name, PCIBusID: d.PCIBusID,
			Readings: readingsOf(d.Readings),
		}
		for _, m := range d.MIG {
			if g.Parts == nil {
				g.Parts = map[string]map[string]float64{}
			}
			g.Parts[fmt.Sprint(m.GPUInstance, " ", m.Profile)] = readingsOf(m.Readings)
		}
		for _, x := range d.XIDs {
			if g.XIDs == nil {
				g.XIDs = map[uint64]uint64{}
			}
			g.XIDs[x.Number] = x.Count
		}
		got.Devices = append(got.Devices, g)
	}
	got.Driver = s.Driver
	return got
}

func TestGoldenAccelerators(t *testing.T) {
	pages, err := filepath.Glob("testdata/pages/accelerators/*.txt")
	if err != nil || len(pages) < 7 {
		t.Fatalf("pages: %v, %v", pages, err)
	}
	mappings := acceleratorMappings(t)
	seen := map[string]bool{}
	for _, name := range pages {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(strings.TrimSuffix(name, ".txt") + ".want.yml")
			if err != nil {
				t.Fatal(err)
			}
			var want goldenDevices
			if err := yaml.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			s, err := readOn(mappings.NewReader(), text, time.Unix(1, 0))
			if err != nil {
				t.Fatal(err)
			}
			near := cmpopts.EquateApprox(1e-9, 0)
			if diff := cmp.Diff(want, goldenOf(s), near); diff != "" {
				t.Error(diff)
			}
			seen[s.Engine] = true
		})
	}
	for _, name := range slices.Sorted(maps.Keys(mappings.byName)) {
		if !seen[name] {
			t.Errorf("no page of %s", name)
		}
	}
}

// Each mapping names kinds and labels that exist, and a vendor of the closed set.
func TestAcceleratorMappings(t *testing.T) {
	infos := map[gpu.Kind]gpu.Info{}
	for _, i := range gpu.Readings() {
		infos[i.Kind] = i
	}
	for name, one := range acceleratorMappings(t).byName {
		m := one.exporter
		if m.Title == "" || m.Setup == "" || len(m.Sentinels) == 0 || m.Device.UUID == "" {
			t.Errorf("%s: title, setup, sentinels or UUID are missing", name)
		}
		known := false
		for _, v := range gpu.Vendors() {
			known = known || v == m.Vendor
		}
		if !known {
			t.Errorf("%s: unknown vendor %q", name, m.Vendor)
		}
		for kind, sources := range m.Readings {
			info, ok := infos[kind]
			if !ok {
				t.Errorf("%s: unknown kind %s", name, kind)
			}
			for _, s := range sources {
				labels := []string{s.As}
				if len(s.Bits) > 0 {
					labels = nil
					for label := range s.Bits {
						labels = append(labels, label)
					}
				}
				for _, label := range labels {
					if (info.Label != "") != (label != "") || info.Values != nil && !contains(info.Values, label) {
						t.Errorf("%s: %s of %s has the label %q, want one of %q", name, kind, s.Series, label, info.Values)
					}
				}
				if s.Combine != "" && s.Combine != "sum" && s.Combine != "max" {
					t.Errorf("%s: %s: combine %q", name, kind, s.Combine)
				}
			}
		}
		for _, kind := range m.Parts {
			if _, ok := m.Readings[kind]; !ok {
				t.Errorf("%s: parts have %s, which is not read", name, kind)
			}
		}
	}
}

func contains(all []string, s string) bool {
	for _, x := range all {
		if x == s {
			return true
		}
	}
	return false
}

func TestTemplate(t *testing.T) {
	labels := map[string]string{"a": "1", "b": "2"}
	for in, want := range map[labelTemplate]string{"": "", "{a}": "1", "{a}/x{b}": "1/x2", "{a}{c}": "", "{c}": ""} {
		if got := in.of(func(name string) string { return labels[name] }); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]int{"": -1, "card1": 1, "12": 12, "x": -1, "123-45": 45} {
		if got := numberAtEnd(in); got != want {
			t.Errorf("numberAtEnd(%q): got %d, want %d", in, got, want)
		}
	}
}

func FuzzAccelerators(f *testing.F) {
	files, _ := filepath.Glob("testdata/pages/accelerators/*.txt")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	mappings := acceleratorMappings(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := readOn(mappings.NewReader(), text, time.Unix(1, 0))
		if err != nil {
			return
		}
		for _, d := range s.Devices {
			if d.UUID == "" {
				t.Error("a device without an identity")
			}
			for _, r := range d.Readings {
				if math.IsNaN(r.Value) || math.IsInf(r.Value, 0) || r.Value < 0 {
					t.Errorf("%s is %v", r.Kind, r.Value)
				}
			}
		}
	})
}

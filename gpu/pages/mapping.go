// Package pages reads GPUs and other accelerators from the metrics pages of other
// exporters, into the snapshots of package gpu. What a series of an exporter means is
// in a mapping, one file for each exporter, and not in code.
package pages

import (
	"bytes"
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/gpu"
)

//go:embed mappings/*.yml
var builtIn embed.FS

// mapping says how to read the page of one exporter. It is immutable.
type mapping struct {
	name string
	// Title is the name of the exporter in texts, Vendor of what it shows.
	Title  string     `yaml:"title"`
	Vendor gpu.Vendor `yaml:"vendor"`
	// Setup and Notes are texts for the documentation.
	Setup string `yaml:"setup"`
	Notes string `yaml:"notes"`
	// Sentinels are series, any of which identifies a page as this exporter's.
	Sentinels []string `yaml:"sentinels"`
	// Prefix may stand before all names.
	Prefix string `yaml:"prefix"`
	// Device are the labels that identify a device.
	Device identity `yaml:"device"`
	// Blanks are values that stand for an unknown one.
	Blanks []blank `yaml:"blanks"`
	// Parts are the kinds that a part of a device has of its own, such as a MIG device.
	Parts []gpu.Kind `yaml:"parts"`
	// Readings are the sources of each kind, the better one first; the first that a
	// device has counts for each value of the label of the kind.
	Readings map[gpu.Kind][]*source `yaml:"readings"`
	// XIDs are the series of critical errors.
	XIDs xidSeries `yaml:"xids"`

	targets map[string][]target // by name of the series
}

// identity has the labels that identify a device, as templates: each {LABEL} is its
// value. A template with a label that a sample lacks has no value.
type identity struct {
	UUID      template `yaml:"uuid"`
	Index     template `yaml:"index"` // a number, or a text that ends in one
	Name      template `yaml:"name"`
	PCIBusID  template `yaml:"pci_bus_id"`
	Host      template `yaml:"host"`
	Driver    template `yaml:"driver"`
	Part      template `yaml:"part"` // number of the GPU instance
	Profile   template `yaml:"profile"`
	Namespace template `yaml:"namespace"`
	Pod       template `yaml:"pod"`
	Container template `yaml:"container"`
}

// blank is a range of values, both ends included.
type blank struct {
	From float64 `yaml:"from"`
	To   float64 `yaml:"to"`
}

// source is where to find a reading on a page.
type source struct {
	// Series is the name of the samples, without the prefix.
	Series string `yaml:"series"`
	// Plus are series whose values are added; without one of them there is no value.
	Plus []string `yaml:"plus"`
	// Labels restrict the samples to those with these values; an empty one is a
	// label that must be missing or empty.
	Labels map[string]string `yaml:"labels"`
	// Device identifies the device in place of that of the mapping.
	Device *identity `yaml:"device"`
	// As is the value of the label of the kind.
	As string `yaml:"as"`
	// Scale is what the value is multiplied with to be in base units. Default: 1.
	Scale float64 `yaml:"scale"`
	// Combine is how several samples of a device make one value, `max` or `sum`.
	// Default: max.
	Combine string `yaml:"combine"`
	// DropZero says that 0 stands for an unknown value.
	DropZero bool `yaml:"drop_zero"`
	// Positive makes 1 of each value above 0.
	Positive bool `yaml:"positive"`
	// Values has what a value stands for; others are unknown.
	Values map[float64]float64 `yaml:"values"`
	// Bits makes a reading of each bit of the value, with its label.
	Bits map[string]uint64 `yaml:"bits"`
}

// xidSeries are the series of critical errors: the number of the latest one, and how
// many there were lately, by the label xid.
type xidSeries struct {
	Last   string `yaml:"last"`
	Recent string `yaml:"recent"`
}

// target is what the samples of a series are for.
type target struct {
	kind   gpu.Kind
	source int // index among the sources of the kind
	term   int // 0 for the series itself, then those under plus
}

// The two kinds of targets that are no readings.
const (
	xidLast   gpu.Kind = "xid last"
	xidRecent gpu.Kind = "xid recent"
)

// newMappings returns the built-in mappings, sorted by name.
func newMappings() ([]*mapping, error) {
	const dir = "mappings"
	files, err := builtIn.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list mappings of GPU pages: %w", err)
	}
	var all []*mapping
	for _, f := range files {
		data, err := builtIn.ReadFile(path.Join(dir, f.Name()))
		if err != nil {
			return nil, fmt.Errorf("read mapping of GPU pages: %w", err)
		}
		m := &mapping{name: strings.TrimSuffix(f.Name(), ".yml")}
		d := yaml.NewDecoder(bytes.NewReader(data))
		d.KnownFields(true)
		if err := d.Decode(m); err != nil {
			return nil, fmt.Errorf("decode mapping of GPU pages %s: %w", f.Name(), err)
		}
		m.compile()
		all = append(all, m)
	}
	return all, nil
}

// Names returns the names of the exporters that are known, sorted.
func Names() []string {
	all, _ := newMappings() // a test holds that there is no error
	var names []string
	for _, m := range all {
		names = append(names, m.name)
	}
	return names
}

// compile fills the index of the series.
func (m *mapping) compile() {
	m.targets = map[string][]target{}
	add := func(series string, t target) {
		if series != "" {
			m.targets[series] = append(m.targets[series], t)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(m.Readings)) {
		for i, s := range m.Readings[kind] {
			if s.Scale == 0 {
				s.Scale = 1
			}
			for term, series := range append([]string{s.Series}, s.Plus...) {
				add(series, target{kind, i, term})
			}
		}
	}
	add(m.XIDs.Last, target{kind: xidLast})
	add(m.XIDs.Recent, target{kind: xidRecent})
}

// find returns what the samples of a name are for.
func (m *mapping) find(name string) []target {
	if t := m.targets[name]; t != nil || m.Prefix == "" {
		return t
	}
	bare, ok := strings.CutPrefix(name, m.Prefix)
	if !ok {
		return nil
	}
	return m.targets[bare]
}

// isBlank reports whether a value stands for an unknown one.
func (m *mapping) isBlank(v float64) bool {
	return slices.ContainsFunc(m.Blanks, func(b blank) bool { return v >= b.From && v <= b.To })
}

// template is a text with the names of labels in braces.
type template string

// of returns the text with the values of labels; "" where one is missing or empty.
func (t template) of(get func(name string) string) string {
	rest := string(t)
	var text strings.Builder
	for {
		before, after, found := strings.Cut(rest, "{")
		text.WriteString(before)
		if !found {
			return text.String()
		}
		name, behind, _ := strings.Cut(after, "}")
		value := get(name)
		if value == "" {
			return ""
		}
		text.WriteString(value)
		rest = behind
	}
}

// kinds returns the kinds of readings that any of the devices has, and those that the
// software can show and none of them has: its page has no series of them, as it is
// configured or of that hardware. Both are sorted.
func (m *mapping) kinds(devices []gpu.DeviceSnapshot) (reads, missing []string) {
	has := map[gpu.Kind]bool{}
	for i := range devices {
		for _, r := range devices[i].Readings {
			has[r.Kind] = true
		}
		for j := range devices[i].MIG {
			for _, r := range devices[i].MIG[j].Readings {
				has[r.Kind] = true
			}
		}
	}
	for kind := range has {
		reads = append(reads, string(kind))
	}
	for kind := range m.Readings {
		if !has[kind] {
			missing = append(missing, string(kind))
		}
	}
	slices.Sort(reads)
	slices.Sort(missing)
	return reads, missing
}

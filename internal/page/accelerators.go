package page

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
)

// accelerators says how to read GPUs and other accelerators from the page of one exporter, into
// the snapshots of package gpu. It is immutable.
type accelerators struct {
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
	Readings map[gpu.Kind][]*readingSource `yaml:"readings"`
	// XIDs are the series of critical errors.
	XIDs xidSeries `yaml:"xids"`

	targets map[string][]readingTarget // by name of the series
}

// identity has the labels that identify a device, as templates: each {LABEL} is its
// value. A template with a label that a sample lacks has no value.
type identity struct {
	UUID      labelTemplate `yaml:"uuid"`
	Index     labelTemplate `yaml:"index"` // a number, or a text that ends in one
	Name      labelTemplate `yaml:"name"`
	PCIBusID  labelTemplate `yaml:"pci_bus_id"`
	Host      labelTemplate `yaml:"host"`
	Driver    labelTemplate `yaml:"driver"`
	Part      labelTemplate `yaml:"part"` // number of the GPU instance
	Profile   labelTemplate `yaml:"profile"`
	Namespace labelTemplate `yaml:"namespace"`
	Pod       labelTemplate `yaml:"pod"`
	Container labelTemplate `yaml:"container"`
}

// blank is a range of values, both ends included.
type blank struct {
	From float64 `yaml:"from"`
	To   float64 `yaml:"to"`
}

// readingSource is where to find a reading on a page.
type readingSource struct {
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

// readingTarget is what the samples of a series are for.
type readingTarget struct {
	kind   gpu.Kind
	source int // index among the sources of the kind
	term   int // 0 for the series itself, then those under plus
}

// The two kinds of targets that are no readings.
const (
	xidLast   gpu.Kind = "xid last"
	xidRecent gpu.Kind = "xid recent"
)

// newAcceleratorMappings returns the built-in mappings of exporters of GPUs and other
// accelerators.
func newAcceleratorMappings() (*Mappings, error) {
	all, err := readBuiltIn("mappings/accelerators", func(data []byte, file string) (*accelerators, error) {
		a := new(accelerators)
		d := yaml.NewDecoder(bytes.NewReader(data))
		d.KnownFields(true)
		if err := d.Decode(a); err != nil {
			return nil, fmt.Errorf("decode %s: %w", file, err)
		}
		a.compile()
		return a, nil
	})
	if err != nil {
		return nil, err
	}
	found := map[string]*config.Mapping{}
	for name, a := range all {
		e := &config.Mapping{Sentinels: slices.Clone(a.Sentinels), Setup: a.Setup, Notes: a.Notes}
		if a.Prefix != "" {
			for _, s := range a.Sentinels {
				e.Sentinels = append(e.Sentinels, a.Prefix+s)
			}
		}
		found[name] = e
	}
	m, err := newMappings("accelerators", found, nil, false)
	if err != nil {
		return nil, err
	}
	m.accelerators = true
	for name, one := range m.byName {
		one.mapping = func() *mapping { return &mapping{name: name, config: one.config, accelerators: all[name]} }
	}
	return m, nil
}

// GPUExporterNames returns the names of the exporters of accelerators that are known, sorted.
func GPUExporterNames() []string {
	all, err := newAcceleratorMappings()
	if err != nil {
		return nil // a test holds that there is none
	}
	return all.Names()
}

// compile fills the index of the series.
func (m *accelerators) compile() {
	m.targets = map[string][]readingTarget{}
	add := func(series string, t readingTarget) {
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
				add(series, readingTarget{kind, i, term})
			}
		}
	}
	add(m.XIDs.Last, readingTarget{kind: xidLast})
	add(m.XIDs.Recent, readingTarget{kind: xidRecent})
}

// find returns what the samples of a name are for.
func (m *accelerators) find(name string) []readingTarget {
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
func (m *accelerators) isBlank(v float64) bool {
	return slices.ContainsFunc(m.Blanks, func(b blank) bool { return v >= b.From && v <= b.To })
}

// labelTemplate is a text with the names of labels in braces.
type labelTemplate string

// of returns the text with the values of labels; "" where one is missing or empty.
func (t labelTemplate) of(get func(name string) string) string {
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
func (m *accelerators) kinds(devices []gpu.DeviceSnapshot) (reads, missing []string) {
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

// GPUExporter describes an exporter whose pages are read, for the documentation.
type GPUExporter struct {
	// Name is that of the mapping, Title that of the software.
	Name, Title  string
	Vendor       gpu.Vendor
	Setup, Notes string
	// Series are the series of each kind that is read, in the order of the mapping.
	Series map[gpu.Kind][]string
}

// GPUExporters returns the exporters that are known, sorted by name. An error is one of the
// built-in mappings.
func GPUExporters() ([]GPUExporter, error) {
	mappings, err := newAcceleratorMappings()
	if err != nil {
		return nil, err
	}
	var all []GPUExporter
	for _, name := range mappings.Names() {
		m := mappings.byName[name].mapping().accelerators
		e := GPUExporter{Name: name, Title: m.Title, Vendor: m.Vendor, Setup: m.Setup, Notes: m.Notes, Series: map[gpu.Kind][]string{}}
		for kind, sources := range m.Readings {
			for _, s := range sources {
				if !slices.Contains(e.Series[kind], s.Series) {
					e.Series[kind] = append(e.Series[kind], s.Series)
				}
			}
		}
		all = append(all, e)
	}
	return all, nil
}

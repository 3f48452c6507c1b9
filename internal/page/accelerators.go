package page

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
)

// Exporter says how to read GPUs and other accelerators from the page of one exporter, into the snapshots of
// package gpu. It is immutable.
type Exporter struct {
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
	// Readings are the sources of each kind, the better one first; the first that a device has counts for each
	// value of the label of the kind.
	Readings map[gpu.Kind][]*ExporterSource `yaml:"readings"`
	// XIDs are the series of critical errors.
	XIDs xidSeries `yaml:"xids"`
}

// identity has the labels that identify a device, as templates: each {LABEL} is its value, each {A|B} that of the
// first that is there. A template with a label that a sample lacks has no value.
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

// ExporterSource is where to find a reading on a page.
type ExporterSource struct {
	// Series is the name of the samples, without the prefix.
	Series string `yaml:"series"`
	// Plus are series whose values are added; without one of them there is no value.
	Plus []string `yaml:"plus"`
	// Labels restrict the samples to those with these values; an empty one is a label that must be missing or
	// empty.
	Labels map[string]string `yaml:"labels"`
	// Device identifies the device in place of that of the mapping.
	Device *identity `yaml:"device"`
	// As is the value of the label of the kind.
	As string `yaml:"as"`
	// Scale is what the value is multiplied with to be in base units; 0 is 1.
	Scale float64 `yaml:"scale"`
	// Combine is how several samples of a device make one value, `max` or `sum`. Default: max.
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

// xidSeries are the series of critical errors: the number of the latest one, and how many there were lately, by the
// label xid.
type xidSeries struct {
	Last   string `yaml:"last"`
	Recent string `yaml:"recent"`
}

// deviceSource is what the samples of a source of accelerators are.
type deviceSource struct {
	*ExporterSource
	parts bool // may be of a part of a device
	// signed is for what can be below zero, such as the margin of a GPU that is too hot.
	signed bool
	xids   bool   // is of critical errors: their number or,
	byXID  string // where this is the name of a label, how many of a number there were
}

// deviceReading is how to work out a reading from the results of sources, which are added.
type deviceReading struct {
	*ExporterSource
	terms []int
}

// compileExporter makes the mapping of an exporter ready to read pages with.
func (c *mapping) compileExporter() {
	a := c.exporter
	c.readings = map[gpu.Kind][]deviceReading{}
	for kind, sources := range a.Readings {
		for _, s := range sources {
			r := deviceReading{ExporterSource: s}
			for _, series := range append([]string{s.Series}, s.Plus...) {
				r.terms = append(r.terms, c.addDevices(series, deviceSource{ExporterSource: s, parts: slices.Contains(a.Parts, kind), signed: kind == "temperature_margin_celsius"}))
			}
			c.readings[kind] = append(c.readings[kind], r)
		}
	}
	for series, label := range map[string]string{a.XIDs.Last: "", a.XIDs.Recent: "xid"} {
		if series != "" {
			c.addDevices(series, deviceSource{ExporterSource: new(ExporterSource), xids: true, byXID: label})
		}
	}
}

// addDevices adds a source of the samples of a series and returns its index.
func (c *mapping) addDevices(series string, d deviceSource) int {
	i := c.addSource(series, source{labels: sortedLabels(d.Labels), max: d.Combine != config.CombineSum, device: &d, signed: d.signed})
	if prefix := c.exporter.Prefix; prefix != "" {
		c.findNumber(plain(prefix+series), i, 1)
	}
	return i
}

// value returns what a sample of a source counts as; false where that is nothing.
func (d *deviceSource) value(v float64) (float64, bool) {
	known := !d.DropZero || v != 0
	if known && d.Values != nil {
		v, known = d.Values[v]
	}
	if d.Positive && v > 0 {
		v = 1
	}
	return v * cmp.Or(d.Scale, 1), known
}

// readingsOf works out the readings of a device or a part, in the order of gpu.Readings.
func (c *mapping) readingsOf(results []series) []gpu.Reading {
	var all []gpu.Reading
	for _, info := range gpu.Readings() {
		start := len(all)
		add := func(label string, v float64) {
			if !slices.ContainsFunc(all[start:], func(r gpu.Reading) bool { return r.Label == label }) {
				all = append(all, gpu.Reading{Kind: info.Kind, Label: label, Value: v})
			}
		}
		for _, r := range c.readings[info.Kind] {
			sum, known := 0.0, true
			for _, term := range r.terms {
				if known = known && results[term].values != nil; known {
					sum += results[term].values[0]
				}
			}
			switch {
			case !known || math.IsInf(sum, 0):
			case len(r.Bits) == 0:
				add(r.As, sum)
			default:
				for label, bit := range r.Bits {
					add(label, float64(min(uint64(sum)&bit, 1)))
				}
			}
		}
		slices.SortFunc(all[start:], func(a, b gpu.Reading) int { return strings.Compare(a.Label, b.Label) })
	}
	return all
}

// mapping returns what pages of the exporter are recognised by.
func (m *Exporter) mapping() *config.Mapping {
	recognised := new(config.Mapping)
	for _, s := range m.Sentinels {
		recognised.Sentinels = append(recognised.Sentinels, s, m.Prefix+s)
	}
	return recognised
}

// Exporter returns how the pages of an exporter of accelerators are read; nil for other software. It is not to be
// changed.
func (m *Mappings) Exporter(name string) *Exporter {
	return cmp.Or(m.byName[name], new(software)).exporter
}

// labelTemplate is a text with the names of labels in braces; of {A|B} it is the first that is there.
type labelTemplate string

// of returns the text with the values of labels; "" where one is missing or empty.
func (t labelTemplate) of(get func(name string) string) string {
	text := ""
	for rest := string(t); ; {
		before, after, found := strings.Cut(rest, "{")
		if text += before; !found {
			return text
		}
		names, behind, _ := strings.Cut(after, "}")
		value := ""
		for name := range strings.SplitSeq(names, "|") {
			value = cmp.Or(value, get(name))
		}
		if value == "" {
			return ""
		}
		text, rest = text+value, behind
	}
}

// kinds returns the kinds of readings that any of the devices has, and those that the software can show and none of
// them has: its page has no series of them, as it is configured or of that hardware. Both are sorted.
func (m *Exporter) kinds(devices []gpu.DeviceSnapshot) (reads, missing []gpu.Kind) {
	for _, kind := range slices.Sorted(maps.Keys(m.Readings)) {
		has := func(readings []gpu.Reading) bool {
			return slices.ContainsFunc(readings, func(r gpu.Reading) bool { return r.Kind == kind })
		}
		if slices.ContainsFunc(devices, func(d gpu.DeviceSnapshot) bool {
			return has(d.Readings) || slices.ContainsFunc(d.MIG, func(m gpu.MIGSnapshot) bool { return has(m.Readings) })
		}) {
			reads = append(reads, kind)
		} else {
			missing = append(missing, kind)
		}
	}
	return reads, missing
}

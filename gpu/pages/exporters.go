package pages

import (
	"slices"

	"github.com/inference-exporter/inference_exporter/gpu"
)

// Exporter describes an exporter whose pages are read, for the documentation.
type Exporter struct {
	// Name is that of the mapping, Title that of the software.
	Name, Title  string
	Vendor       gpu.Vendor
	Setup, Notes string
	// Series are the series of each kind that is read, in the order of the mapping.
	Series map[gpu.Kind][]string
}

// Exporters returns the exporters that are known, sorted by name. An error is one of the
// built-in mappings.
func Exporters() ([]Exporter, error) {
	mappings, err := newMappings()
	var all []Exporter
	for _, m := range mappings {
		e := Exporter{Name: m.name, Title: m.Title, Vendor: m.Vendor, Setup: m.Setup, Notes: m.Notes, Series: map[gpu.Kind][]string{}}
		for kind, sources := range m.Readings {
			for _, s := range sources {
				if !slices.Contains(e.Series[kind], s.Series) {
					e.Series[kind] = append(e.Series[kind], s.Series)
				}
			}
		}
		all = append(all, e)
	}
	return all, err
}

package page

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/inference-exporter/inference_exporter/config"
)

//go:embed mappings/*/*.yml
var builtIn embed.FS

// The usual page, and one that has to be tried before it: where it is there,
// the usual one is JSON, and reading that takes items away from other readers.
const (
	usualPage = "/metrics"
	firstPage = "/prometheus/metrics"
)

// Mappings are the mappings of all engines, ready to read pages with. It is
// safe for concurrent use.
type Mappings struct {
	byName    map[string]*software
	ranked    []*software    // in the order of recognition
	sentinels map[string]int // plain name → index in ranked
	pages     []string       // to try on a server of an unknown engine
	scratch   sync.Pool      // of *scratch
	memory    memory         // of large pages, shared by all endpoints
	bounds    *sharedBounds  // of the histograms of all servers

	accelerators bool // are on the pages, instead of servers or gateways

	withLengths func() *Mappings
}

// software is an engine or a gateway. Its mapping is made ready when a page needs it: most
// software is on no page of a fleet.
type software struct {
	name    string
	config  *config.Mapping
	mapping func() *mapping
}

// NewMappings returns the built-in mappings with own ones added. An own mapping
// with the name of a built-in one changes what it writes: the maps of the two
// are merged by key, lists and scalars replaced. The error is a join of what
// Check finds.
func NewMappings(own map[string]*config.Mapping) (*Mappings, error) { return servers().mappings(own) }

// Check returns the names of the engines that have a mapping, sorted, own ones
// included, and the mistakes in own ones.
func Check(own map[string]*config.Mapping) (names []string, mistakes []*config.Error) {
	return servers().check(own)
}

// role is what software is of whose pages are read.
type role struct {
	section string // of the configuration, with own mappings
	folder  string // of built-in ones
	of      config.Software
}

func servers() role { return role{"engines", "mappings/servers", config.ServerSoftware} }

func (r role) parse(data []byte, name string) (*config.Mapping, error) {
	return config.ParseMapping(data, name, r.of)
}

func (r role) mappings(own map[string]*config.Mapping) (*Mappings, error) {
	base, err := readBuiltIn(r.folder, r.parse)
	if err != nil {
		return nil, err
	}
	return newMappings(r.section, base, own, false)
}

func (r role) check(own map[string]*config.Mapping) (names []string, mistakes []*config.Error) {
	base, err := readBuiltIn(r.folder, r.parse)
	if err != nil {
		mistakes = append(mistakes, &config.Error{Path: r.section, Msg: err.Error()})
	}
	all := mergeAll(base, own)
	return slices.Sorted(maps.Keys(all)), append(mistakes, withoutSentinels(r.section, all)...)
}

// readBuiltIn returns the mappings of a directory; the name of a file is that of
// its software.
func readBuiltIn[T any](dir string, parse func(data []byte, name string) (T, error)) (map[string]T, error) {
	files, err := builtIn.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list built-in mappings: %w", err)
	}
	all := map[string]T{}
	for _, f := range files {
		file := path.Join(dir, f.Name())
		data, err := builtIn.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read built-in mapping: %w", err)
		}
		e, err := parse(data, file)
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(f.Name(), ".yml")] = e
	}
	return all, nil
}

// newMappings returns the mappings of a section, which read the lengths of requests too, or not.
func newMappings(section string, base, own map[string]*config.Mapping, lengths bool) (*Mappings, error) {
	engines := mergeAll(base, own)
	var errs []error
	for _, e := range withoutSentinels(section, engines) {
		errs = append(errs, e)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	m := &Mappings{byName: map[string]*software{}, sentinels: map[string]int{}, memory: newMemory(), bounds: newSharedBounds()}
	for _, name := range slices.Sorted(maps.Keys(engines)) {
		e := engines[name]
		one := &software{name, e, sync.OnceValue(func() *mapping { return compile(name, e, lengths) })}
		m.byName[name] = one
		m.ranked = append(m.ranked, one)
	}
	rank := func(c *software) int {
		switch {
		case c.config.Fallback:
			return 2
		case base[c.name] != nil:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(m.ranked, func(a, b *software) int { return cmp.Compare(rank(a), rank(b)) })
	for i, c := range slices.Backward(m.ranked) {
		for _, s := range c.config.Sentinels {
			m.sentinels[plain(s)] = i
		}
	}
	m.pages = m.commonPages()
	m.scratch.New = func() any { return new(scratch) }
	m.withLengths = sync.OnceValue(func() *Mappings {
		with, _ := newMappings(section, base, own, true) // as good as these
		with.memory, with.bounds = m.memory, m.bounds
		return with
	})
	return m, nil
}

// WithLengths returns the same mappings for readers that read the lengths of requests
// too, which takes memory for each server.
func (m *Mappings) WithLengths() *Mappings { return m.withLengths() }

// mergeAll returns base with own mappings added.
func mergeAll(base, own map[string]*config.Mapping) map[string]*config.Mapping {
	engines := maps.Clone(base)
	if engines == nil {
		engines = map[string]*config.Mapping{}
	}
	for name, e := range own {
		if base[name] != nil {
			e = merge(base[name], e)
		}
		engines[name] = e
	}
	return engines
}

// withoutSentinels reports the mappings of a section that no page is recognised by.
func withoutSentinels(section string, engines map[string]*config.Mapping) []*config.Error {
	var mistakes []*config.Error
	for _, name := range slices.Sorted(maps.Keys(engines)) {
		if len(engines[name].Sentinels) == 0 {
			mistakes = append(mistakes, &config.Error{
				Path: config.Key(section, name),
				Msg:  "no sentinels; a new mapping needs series that no other engine has",
			})
		}
	}
	return mistakes
}

// merge returns base with what e writes.
func merge(base, e *config.Mapping) *config.Mapping {
	c := *base
	replace(&c.Sentinels, e.Sentinels)
	replace(&c.Pages, e.Pages)
	replace(&c.Copies, e.Copies)
	replace(&c.Expected, e.Expected)
	replace(&c.ExpectedAfterWork, e.ExpectedAfterWork)
	replace(&c.Progress, e.Progress)
	replace(&c.InputLengths, e.InputLengths)
	replace(&c.OutputLengths, e.OutputLengths)
	replace(&c.PrefixCache, e.PrefixCache)
	replace(&c.Requests, e.Requests)
	replace(&c.Backend, e.Backend)
	replace(&c.BackendRequests, e.BackendRequests)
	replace(&c.Ready, e.Ready)
	c.Fallback = c.Fallback || e.Fallback
	c.Setup = cmp.Or(e.Setup, c.Setup)
	c.Notes = cmp.Or(e.Notes, c.Notes)
	c.ModelLabel = cmp.Or(e.ModelLabel, c.ModelLabel)
	add(&c.Labels, e.Labels)
	add(&c.Values, e.Values)
	add(&c.Histograms, e.Histograms)
	return &c
}

// replace sets a list to a written one.
func replace[T any](list *[]T, written []T) {
	if written != nil {
		*list = written
	}
}

// add adds the keys of written to a map, in a new map.
func add[K comparable, V any](m *map[K]V, written map[K]V) {
	if len(written) > 0 {
		merged := maps.Clone(written)
		for k, v := range *m {
			if _, ok := written[k]; !ok {
				merged[k] = v
			}
		}
		*m = merged
	}
}

// Names returns the names of the engines that have a mapping, sorted.
func (m *Mappings) Names() []string { return slices.Sorted(maps.Keys(m.byName)) }

// Pages returns where the page of an engine may be, in the order to try: a
// path, or a port and a path as in `:8002/metrics`. For an engine without a
// mapping, "" among them, it returns the paths of all engines.
func (m *Mappings) Pages(engine string) []string {
	if c := m.byName[engine]; c != nil {
		return slices.Clone(enginePages(c.config))
	}
	return slices.Clone(m.pages)
}

func enginePages(e *config.Mapping) []string {
	if len(e.Pages) == 0 {
		return []string{usualPage}
	}
	return e.Pages
}

// commonPages returns the paths of all engines, the usual one as early as it
// may be. Those with a port are left out: on a server of an unknown engine
// the port may be anything. So are those that differ from another one in a
// slash at the end.
func (m *Mappings) commonPages() []string {
	pages := []string{firstPage, usualPage}
	for _, c := range m.ranked {
		for _, p := range enginePages(c.config) {
			known := slices.Contains(pages, p) || slices.Contains(pages, strings.TrimSuffix(p, "/"))
			if strings.HasPrefix(p, "/") && !known {
				pages = append(pages, p)
			}
		}
	}
	return pages
}

// Mapping returns the mapping of an engine as it is used, own changes included;
// nil for an engine that has none. It is not to be changed.
func (m *Mappings) Mapping(name string) *config.Mapping {
	if c := m.byName[name]; c != nil {
		return c.config
	}
	return nil
}

// NewReader returns a reader for the pages of one server.
func (m *Mappings) NewReader() *Reader { return &Reader{mappings: m, shown: new(shown)} }

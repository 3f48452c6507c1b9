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

	role        Role
	withLengths func() *Mappings
}

// software is a server, a gateway or an exporter of accelerators. Its mapping is made ready when a
// page needs it: most software is on no page of a fleet.
type software struct {
	name     string
	config   *config.Mapping
	exporter *Exporter // of accelerators
	builtIn  bool
	mapping  func() *mapping
}

// Role is what software is of whose pages are read: the folder of its mappings.
type Role string

// The roles.
const (
	Servers      Role = "servers"
	Gateways     Role = "gateways"
	Accelerators Role = "accelerators"
)

// section returns the section of a configuration with mappings of the role.
func (r Role) section() string {
	return map[Role]string{Servers: "engines", Gateways: "gateway_mappings"}[r]
}

// NewMappings returns the built-in mappings of a role with own ones added. An own mapping
// with the name of a built-in one changes what it writes: the maps of the two
// are merged by key, lists and scalars replaced. The error is a join of what
// Check finds.
func NewMappings(r Role, own map[string]*config.Mapping) (*Mappings, error) {
	all, mistakes := r.software(own)
	if len(mistakes) > 0 {
		return nil, errors.Join(mistakes...)
	}
	return newMappings(r, all, false), nil
}

// Check returns the names of the software of a role that has a mapping, sorted, own ones
// included, and the mistakes in own ones.
func Check(r Role, own map[string]*config.Mapping) (names []string, mistakes []*config.Error) {
	all, errs := r.software(own)
	for _, err := range errs {
		e, ok := errors.AsType[*config.Error](err)
		if !ok {
			e = &config.Error{Path: r.section(), Msg: err.Error()}
		}
		mistakes = append(mistakes, e)
	}
	return slices.Sorted(maps.Keys(all)), mistakes
}

// software returns all software of a role by name, and what is wrong with it.
func (r Role) software(own map[string]*config.Mapping) (all map[string]*software, mistakes []error) {
	all, err := r.readBuiltIn()
	if err != nil {
		mistakes = append(mistakes, err)
	}
	return all, append(mistakes, r.addOwn(all, own)...)
}

// addOwn adds own mappings to all software of a role and returns what is wrong then.
func (r Role) addOwn(all map[string]*software, own map[string]*config.Mapping) (mistakes []error) {
	for name, e := range own {
		if base := all[name]; base != nil {
			base.config = merge(base.config, e)
		} else {
			all[name] = &software{name: name, config: e}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(all[name].config.Sentinels) == 0 { // no page is recognised by it
			mistakes = append(mistakes, &config.Error{
				Path: config.Key(r.section(), name),
				Msg:  "no sentinels; a new mapping needs series that no other engine has",
			})
		}
	}
	return mistakes
}

// readBuiltIn returns the software with a built-in mapping, whose name is that of the file.
func (r Role) readBuiltIn() (map[string]*software, error) {
	all := map[string]*software{}
	dir := "mappings/" + string(r)
	files, err := builtIn.ReadDir(dir)
	if err != nil {
		return all, fmt.Errorf("list built-in mappings: %w", err)
	}
	for _, f := range files {
		file := path.Join(dir, f.Name())
		data, err := builtIn.ReadFile(file)
		if err != nil {
			return all, fmt.Errorf("read built-in mapping: %w", err)
		}
		one := &software{name: strings.TrimSuffix(f.Name(), ".yml"), builtIn: true}
		switch r {
		case Accelerators:
			one.exporter, one.config, err = parseExporter(data, file)
		case Gateways:
			one.config, err = config.ParseMapping(data, file, config.GatewaySoftware)
		default:
			one.config, err = config.ParseMapping(data, file, config.ServerSoftware)
		}
		if err != nil {
			return all, err
		}
		all[one.name] = one
	}
	return all, nil
}

// newMappings returns the mappings of software, which read the lengths of requests too, or not.
func newMappings(r Role, all map[string]*software, lengths bool) *Mappings {
	m := &Mappings{role: r, byName: map[string]*software{}, sentinels: map[string]int{}, memory: newMemory(), bounds: newSharedBounds()}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one := *all[name]
		one.mapping = sync.OnceValue(func() *mapping { return compile(&one, lengths) })
		m.byName[name] = &one
		m.ranked = append(m.ranked, &one)
	}
	rank := func(c *software) int {
		switch {
		case c.config.Fallback:
			return 2
		case c.builtIn:
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
		with := newMappings(r, all, true)
		with.memory, with.bounds = m.memory, m.bounds
		return with
	})
	return m
}

// WithLengths returns the same mappings for readers that read the lengths of requests
// too, which takes memory for each server.
func (m *Mappings) WithLengths() *Mappings { return m.withLengths() }

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

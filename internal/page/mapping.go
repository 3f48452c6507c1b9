package page

import (
	"cmp"
	"embed"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/asset"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

//go:embed mappings/*/*.yml
var builtInFiles embed.FS

// The usual page, and one that has to be tried before it: where it is there, the usual one is JSON, and reading
// that takes items away from other readers.
const (
	usualPage = "/metrics"
	firstPage = "/prometheus/metrics"
)

// Mappings are the mappings of all engines, ready to read pages with. They are safe for concurrent use.
type Mappings struct {
	role      Role
	lengths   bool // the lengths of requests are read too
	byName    map[string]*software
	ranked    []*software    // in the order of recognition
	sentinels map[string]int // plain name, after sentinelOf → index in ranked
	pages     []string       // to try on a server of an unknown engine
	scratch   *sync.Pool     // of *scratch
	memory    memory         // of large pages, shared by all endpoints
	bounds    *sharedBounds  // of the histograms of all servers
}

// software is a server, a gateway or an exporter of accelerators. Its mapping is made ready when a page needs
// it: most software is on no page of a fleet.
type software struct {
	name     string
	config   *config.Mapping
	exporter *Exporter // of accelerators
	builtIn  bool

	plain, withLengths func() *mapping
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

// NewMappings returns the built-in mappings of a role with own ones added, in which Check finds no mistakes. An own
// mapping with the name of a built-in one changes what it writes: the maps of the two are merged by key, lists and
// scalars replaced.
func NewMappings(r Role, own map[string]*config.Mapping) *Mappings {
	all := maps.Clone(builtIn()[r])
	r.addOwn(all, own)
	return newMappings(r, all)
}

// Check returns the names of the software of a role that has a mapping, sorted, own ones included, and the
// mistakes in own ones.
func Check(r Role, own map[string]*config.Mapping) (names []string, mistakes []*config.Error) {
	all := maps.Clone(builtIn()[r])
	mistakes = r.addOwn(all, own)
	return slices.Sorted(maps.Keys(all)), mistakes
}

// addOwn adds own mappings to all software of a role and returns what is wrong then.
func (r Role) addOwn(all map[string]*software, own map[string]*config.Mapping) (mistakes []*config.Error) {
	for name, e := range own {
		one := software{name: name, config: e}
		if base := all[name]; base != nil {
			one = *base
			one.config = merge(base.config, e)
		}
		all[name] = one.made()
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(all[name].config.Sentinels) == 0 && !all[name].builtIn { // no page is recognised by it
			mistakes = append(mistakes, &config.Error{
				Path: config.Key(r.section(), name),
				Msg:  "no sentinels; a new mapping needs series that no other engine has",
			})
		}
	}
	return mistakes
}

// made returns the software with the functions that make its mapping ready.
func (one software) made() *software {
	one.plain = sync.OnceValue(func() *mapping { return compile(&one, false) })
	one.withLengths = sync.OnceValue(func() *mapping { return compile(&one, true) })
	return &one
}

// builtIn returns the software with a built-in mapping by role and name, which is that of the file. It is not to
// be changed. A test reads all.
var builtIn = sync.OnceValue(func() map[Role]map[string]*software {
	all := map[Role]map[string]*software{Servers: {}, Gateways: {}, Accelerators: {}}
	files, _ := fs.Glob(builtInFiles, "mappings/*/*.yml") // the pattern is a good one
	for _, file := range files {
		data, err := builtInFiles.ReadFile(file)
		one := software{name: strings.TrimSuffix(path.Base(file), ".yml"), builtIn: true}
		role := Role(path.Base(path.Dir(file)))
		switch role {
		case Accelerators:
			one.exporter = new(Exporter)
			asset.Decode(file, data, one.exporter)
			one.config = one.exporter.mapping()
		case Gateways:
			one.config, err = config.ParseMapping(data, file, config.GatewaySoftware)
		default:
			one.config, err = config.ParseMapping(data, file, config.ServerSoftware)
		}
		if err != nil {
			panic("read built-in mapping: " + err.Error())
		}
		all[role][one.name] = one.made()
	}
	return all
})

func newMappings(r Role, all map[string]*software) *Mappings {
	m := &Mappings{
		role: r, byName: all, sentinels: map[string]int{}, memory: newMemory(), bounds: new(sharedBounds),
		scratch: &sync.Pool{New: func() any { return new(scratch) }},
	}
	m.ranked = stats.Map(slices.Sorted(maps.Keys(all)), func(name string) *software { return all[name] })
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
			m.sentinels[sentinelOf(c.config.IsJSON())+plain(s)] = i
		}
	}
	m.pages = m.commonPages()
	return m
}

// WithLengths returns the same mappings for readers that read the lengths of requests too, which takes memory
// for each server.
func (m *Mappings) WithLengths() *Mappings {
	with := *m
	with.lengths = true
	return &with
}

// mapping returns the mapping of software as it is read.
func (m *Mappings) mapping(of *software) *mapping {
	if m.lengths {
		return of.withLengths()
	}
	return of.plain()
}

// merge returns base with what e writes: the keys of maps, and in place of all else that is not empty.
func merge(base, e *config.Mapping) *config.Mapping {
	merged := *base
	to, from := reflect.ValueOf(&merged).Elem(), reflect.ValueOf(e).Elem()
	for i := range from.NumField() {
		switch written := from.Field(i); {
		case written.IsZero():
		case written.Kind() == reflect.Map:
			both := reflect.MakeMap(written.Type())
			for _, m := range []reflect.Value{to.Field(i), written} {
				for k, v := range m.Seq2() {
					both.SetMapIndex(k, v)
				}
			}
			to.Field(i).Set(both)
		default:
			to.Field(i).Set(written)
		}
	}
	return &merged
}

// Pages returns where the page of an engine may be, in the order to try: a path, or a port and a path as in
// `:8002/metrics`. For an engine without a mapping, "" among them, it returns the paths of all engines.
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

// commonPages returns the paths of all engines, the usual one as early as it may be. Those with a port are left
// out: on a server of an unknown engine the port may be anything. So are those that differ from another one in
// a slash at the end, and those of JSON, which only a known engine is asked for.
func (m *Mappings) commonPages() []string {
	pages := []string{firstPage, usualPage}
	for _, c := range m.ranked {
		for _, p := range enginePages(c.config) {
			known := slices.Contains(pages, p) || slices.Contains(pages, strings.TrimSuffix(p, "/"))
			if strings.HasPrefix(p, "/") && !known && !c.config.IsJSON() {
				pages = append(pages, p)
			}
		}
	}
	return pages
}

// Mapping returns the mapping of an engine as it is used, own changes included; nil for an engine that has none.
// It is not to be changed.
func (m *Mappings) Mapping(name string) *config.Mapping {
	return cmp.Or(m.byName[name], new(software)).config
}

// NewReader returns a reader for the pages of one server.
func (m *Mappings) NewReader() *Reader { return &Reader{mappings: m, shown: new(shown)} }

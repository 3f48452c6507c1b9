package collector

import (
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Servers is the store of the servers' own metrics, and of what follows
// from it for their endpoints. It is safe for concurrent use.
type Servers struct {
	labels           *labeller
	endpointFamilies []*endpointFamily // sorted by name
	serverFamilies   []*serverFamily   // sorted by name

	mu        sync.Mutex
	endpoints map[string]*servedEndpoint // by name
	stale     bool                       // ordered is to be rebuilt
	ordered   struct {                   // in the order of a page
		endpoints []*servedEndpoint
		servers   []*server
	}
}

// NewServers returns an empty store.
func NewServers() *Servers {
	s := &Servers{
		labels:           newLabeller(),
		endpointFamilies: endpointFamilies(),
		serverFamilies:   serverFamilies(),
		endpoints:        make(map[string]*servedEndpoint),
	}
	slices.SortFunc(s.endpointFamilies, compareNames)
	slices.SortFunc(s.serverFamilies, compareNames)
	return s
}

// ServersID identifies the servers of an endpoint.
type ServersID struct {
	// Endpoint is the unique name, Model what it serves; "" is not known.
	Endpoint, Model string
	// Engine is the engine of the servers until a page is read; "" is not known.
	Engine string
	// Labels are the configured labels, as in SeriesOptions.
	Labels map[string]string
}

// servedEndpoint is an endpoint with its servers.
type servedEndpoint struct {
	model    string
	labels   map[string]string
	block    *labelBlock        // nil while there is nothing to show
	servers  map[string]*server // by name; nil is none
	states   [numStates]int     // servers by index in states
	overhead overhead
	parts    *page.TTFTParts // nil is not known
}

// server is what is known of one server. Its blocks are rebuilt only when a
// label changes.
type server struct {
	engine string // that of the latest page, also while there is none
	// The labels that only info has.
	url, unit, role string
	block, info     *labelBlock
	status          *page.Status
}

// Set replaces what is known of the servers of an endpoint: those without a
// status go. An endpoint is known from its first Set on, even without a
// server. Snapshots and failures in statuses must not be changed afterwards.
func (s *Servers) Set(id ServersID, statuses []page.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, relabel := s.endpoint(id)
	var servers map[string]*server
	if len(statuses) > 0 {
		servers = make(map[string]*server, len(statuses))
	}
	e.states = [numStates]int{}
	for i := range statuses {
		st := statuses[i]
		srv, ok := e.servers[st.Server]
		if !ok {
			srv = &server{engine: id.Engine}
		}
		servers[st.Server] = srv
		srv.status = &st
		s.label(srv, id.Endpoint, e, relabel)
		if i := slices.Index(states(), st.State); i >= 0 {
			e.states[i]++
		}
	}
	if len(servers) != len(e.servers) {
		s.stale = true
	}
	e.servers = servers
	e.overhead.scraped(statuses)
}

// endpoint returns the endpoint of id, which it creates if there is none, and
// whether its labels are other ones than before. Latencies of another model
// are not compared with those of the one before.
func (s *Servers) endpoint(id ServersID) (e *servedEndpoint, relabel bool) {
	model := boundModel(id.Model)
	e, ok := s.endpoints[id.Endpoint]
	if ok && e.model == model && maps.Equal(e.labels, id.Labels) {
		return e, false
	}
	if !ok {
		e = &servedEndpoint{}
		s.endpoints[id.Endpoint] = e
	}
	if e.model != "" && e.model != model {
		e.overhead, e.parts = overhead{}, nil
	}
	e.model, e.labels, e.block = model, id.Labels, nil
	s.stale = true
	return e, true
}

// hasValues reports whether there is anything to show of the endpoint itself.
func (e *servedEndpoint) hasValues() bool {
	return e.states != [numStates]int{} || e.overhead.values() != [numOverheads]gauge{} || e.parts != nil
}

// label renders the labels of a server that has a new status. The engine stays
// that of the latest page while a server is down, so that its series go on.
func (s *Servers) label(srv *server, name string, e *servedEndpoint, relabel bool) {
	base := []pair{{"endpoint", name}, {"model", e.model}, {"server", srv.status.Server}, {"engine", srv.engine}}
	relabel = relabel || srv.block == nil
	snapshot := snapshotOf(srv.status)
	if snapshot != nil && snapshot.Engine != srv.engine {
		srv.engine, base[3].value, relabel = snapshot.Engine, snapshot.Engine, true
	}
	if relabel {
		srv.block = s.labels.block(base, e.labels)
		srv.info = nil
		s.stale = true
	}
	if snapshot == nil {
		return
	}
	if srv.info == nil || srv.url != srv.status.URL || srv.unit != snapshot.PrefixCacheUnit || srv.role != snapshot.Role {
		srv.url, srv.unit, srv.role = srv.status.URL, snapshot.PrefixCacheUnit, snapshot.Role
		srv.info = s.labels.block(append(base, pair{"url", srv.url}, pair{"prefix_cache_unit", srv.unit}, pair{"disaggregation_role", srv.role}), e.labels)
	}
}

// Remove takes an endpoint and its servers off the page.
func (s *Servers) Remove(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.endpoints, endpoint)
	s.stale = true
}

// ObserveProbe takes from a result the time that the servers
// do not see. untimed means that its latencies do not count. It
// changes nothing for an endpoint that is not known, as a probe may end after its
// endpoint went.
func (s *Servers) ObserveProbe(endpoint string, r *result.Result, untimed bool) {
	s.withOverhead(endpoint, func(o *overhead) { o.observe(r, !untimed && !r.Imprecise) })
}

// BurstBegins and BurstEnds bound the time in which the exporter puts load on an
// endpoint, whose requests are neither probes nor others' traffic.
func (s *Servers) BurstBegins(endpoint string) { s.withOverhead(endpoint, (*overhead).burstBegins) }

// BurstEnds ends what BurstBegins began.
func (s *Servers) BurstEnds(endpoint string) { s.withOverhead(endpoint, (*overhead).burstEnds) }

func (s *Servers) withOverhead(endpoint string, do func(*overhead)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.endpoints[endpoint]; ok {
		do(&e.overhead)
	}
}

// labelled is what the samples of one series come from, with its labels.
type labelled[V any] struct {
	block *labelBlock
	value V
}

// write walks over all families.
func (s *Servers) write(w io.Writer, e encoder) error {
	endpoints, servers := s.page()
	if err := writeSeries(w, e, s.endpointFamilies, endpoints); err != nil {
		return err
	}
	return writeSeries(w, e, s.serverFamilies, servers)
}

// writeSeries writes families over the same series.
func writeSeries[V any](w io.Writer, e encoder, families []*familyOf[V], series []labelled[V]) error {
	for _, f := range families {
		e.begin(f.family)
		for i := range series {
			e.labels(series[i].block, time.Time{})
			f.emit(e, f.family, series[i].value)
			if err := e.flush(w); err != nil {
				return err
			}
		}
		if err := e.end(w); err != nil {
			return err
		}
	}
	return nil
}

// page returns what is known now, in the order of a page. All families of a
// page come from the same statuses.
func (s *Servers) page() ([]labelled[endpointValues], []labelled[serverValues]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range s.endpoints {
		if e.block == nil && e.hasValues() {
			e.block = s.labels.block([]pair{{"endpoint", name}, {"model", e.model}}, e.labels)
			s.stale = true
		}
	}
	if s.stale {
		s.stale = false
		s.order()
	}
	endpoints := make([]labelled[endpointValues], len(s.ordered.endpoints))
	for i, e := range s.ordered.endpoints {
		endpoints[i] = labelled[endpointValues]{e.block, endpointValues{e.states, e.overhead.values(), e.parts}}
	}
	servers := make([]labelled[serverValues], len(s.ordered.servers))
	for i, srv := range s.ordered.servers {
		servers[i] = labelled[serverValues]{srv.block, serverValues{srv.info, srv.status}}
	}
	return endpoints, servers
}

// order sorts the endpoints and the servers by their labels.
func (s *Servers) order() {
	var endpoints []*servedEndpoint
	var servers []*server
	for _, e := range s.endpoints {
		if e.block != nil {
			endpoints = append(endpoints, e)
		}
		for _, srv := range e.servers {
			servers = append(servers, srv)
		}
	}
	slices.SortFunc(endpoints, func(a, b *servedEndpoint) int { return compareLabels(a.block, b.block) })
	slices.SortFunc(servers, func(a, b *server) int { return compareLabels(a.block, b.block) })
	s.ordered.endpoints, s.ordered.servers = endpoints, servers
}

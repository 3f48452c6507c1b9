package page

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/inference-exporter/inference_exporter/config"
)

// maxBackends is how many backends of a gateway are read one by one. Those of a page
// with more are read together only.
const maxBackends = 100

// NewGatewayMappings returns the built-in mappings of gateways with own ones added, as
// NewMappings does for engines.
func NewGatewayMappings(own map[string]*config.GatewayMapping) (*Mappings, error) {
	base, err := readBuiltInGateways()
	if err != nil {
		return nil, err
	}
	return newMappings("gateway_mappings", base, asEngines(own), false)
}

// CheckGateways returns what Check does, for mappings of gateways.
func CheckGateways(own map[string]*config.GatewayMapping) (names []string, mistakes []*config.Error) {
	base, err := readBuiltInGateways()
	if err != nil {
		mistakes = append(mistakes, &config.Error{Path: "gateway_mappings", Msg: err.Error()})
	}
	all := mergeAll(base, asEngines(own))
	return slices.Sorted(maps.Keys(all)), append(mistakes, withoutSentinels("gateway_mappings", all)...)
}

func readBuiltInGateways() (map[string]*config.Engine, error) {
	return readBuiltIn("mappings/gateways", func(data []byte, name string) (*config.Engine, error) {
		g, err := config.ParseGatewayMapping(data, name)
		if err != nil {
			return nil, err
		}
		return g.Engine(), nil
	})
}

func asEngines(all map[string]*config.GatewayMapping) map[string]*config.Engine {
	engines := make(map[string]*config.Engine, len(all))
	for name, g := range all {
		engines[name] = g.Engine()
	}
	return engines
}

// readiness is how to find whether a backend is ready.
type readiness struct {
	*number
	values []float64
}

// addReady adds the source of a readiness.
func (c *mapping) addReady(g *config.GatewayReady) readiness {
	n := c.addNumber(&config.EngineSource{Series: g.Series, Labels: g.Labels, Combine: config.CombineMax, Scale: 1}, gauge)
	return readiness{n, g.Values}
}

// noBackend is what Python's programs write for a name that is missing.
const noBackend = "None"

// backendOf returns the name of the backend of a sample; "" without one.
func (c *mapping) backendOf(ls labels.Labels) string {
	for _, name := range c.config.Backend {
		if v := ls.Get(name); v != "" && v != noBackend && len(v) <= maxBackendName {
			return v
		}
	}
	return ""
}

// noteBackend keeps of which backend the samples with a set of labels are.
func (s *scratch) noteBackend(c *mapping, set uint64, ls labels.Labels) {
	if len(c.config.Backend) == 0 {
		return
	}
	if _, known := s.backends[set]; known {
		return
	}
	if s.backends == nil {
		s.backends = map[uint64]string{}
	}
	s.backends[set] = strings.Clone(c.backendOf(ls)) // not a part of the page
}

// byBackend returns the samples of each backend, in their order; nil where the page
// has none, or too many.
func (s *scratch) byBackend(c *mapping) map[string][]sample {
	if len(s.backends) == 0 {
		return nil
	}
	parts := map[string][]sample{}
	for _, sm := range s.samples {
		if name := s.backends[sm.set]; name != "" {
			parts[name] = append(parts[name], sm)
		}
	}
	if len(parts) > maxBackends {
		c.dropGone(parts)
	}
	if len(parts) > maxBackends {
		return nil
	}
	return parts
}

// dropGone removes the backends of which the page shows counters alone, where it shows the
// readiness of others: a program may keep the counters of all that it ever had.
func (c *mapping) dropGone(parts map[string][]sample) {
	showsReadiness := func(samples []sample) bool {
		return slices.ContainsFunc(samples, func(sm sample) bool {
			return slices.ContainsFunc(c.ready, func(r readiness) bool { return r.source == int(sm.source) })
		})
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(parts)), showsReadiness) {
		return
	}
	maps.DeleteFunc(parts, func(_ string, samples []sample) bool { return !showsReadiness(samples) })
}

// readBackends adds to the snapshot of a page those of its backends, each read as if
// it had a page of its own, with the samples of that backend.
func (r *Reader) readBackends(w way, s *scratch, p *page, snap *Snapshot, parts map[string][]sample) *PageError {
	backends := make(map[string]*Reader, len(parts))
	for name, samples := range parts {
		b := r.backends[name]
		if b == nil {
			b = &Reader{mappings: r.mappings}
		}
		backends[name] = b
		s.again(w.mapping, samples)
		if err := s.assemble(p, w.mapping); err != nil {
			return err
		}
		b.follow(w, s)
		one := b.snapshot(w.mapping, s, snap.At)
		one.Missing = nil
		if len(w.mapping.backendRequests) > 0 {
			one.Requests = w.mapping.finished(w.mapping.backendRequests, s.results)
		}
		w.mapping.judge(one, s.results)
		if snap.Backends == nil {
			snap.Backends = make(map[string]*Snapshot, len(parts))
		}
		snap.Backends[name] = one
	}
	r.backends = backends
	snap.countBackends()
	return nil
}

// cleanBackends makes the names of the backends of a snapshot safe to show. Of those
// that are then the same, the first counts.
func (s *server) cleanBackends(snap *Snapshot) {
	if len(snap.Backends) == 0 {
		return
	}
	before, shown := s.backends, make(map[string]*Snapshot, len(snap.Backends))
	s.backends = make(map[string]string, len(snap.Backends))
	for _, name := range slices.Sorted(maps.Keys(snap.Backends)) {
		clean, known := before[name]
		if !known {
			clean = s.secrets.Line(name, maxBackendName)
		}
		s.backends[name] = clean
		if clean != "" && shown[clean] == nil {
			shown[clean] = snap.Backends[name]
		}
	}
	snap.Backends = shown
}

// again makes the scratch ready for some of the samples of the same page.
func (s *scratch) again(c *mapping, samples []sample) {
	s.samples = append(s.samples[:0], samples...)
	s.series, s.numbers = s.series[:0], s.numbers[:0]
	s.bad, s.results = sized(s.bad, len(c.sources)), sized(s.results, len(c.sources))
}

// judge sets whether the backend of a snapshot is ready, where the page says so: it
// is then one of one or none of one.
func (c *mapping) judge(one *Snapshot, results []result) {
	delete(one.Values, config.Backends)
	delete(one.Values, config.BackendsReady)
	for _, ready := range c.ready {
		if v, ok := ready.of(results); ok {
			one.Values[config.Backends], one.Values[config.BackendsReady] = 1, 0
			if slices.Contains(ready.values, v) {
				one.Values[config.BackendsReady] = 1
			}
			return
		}
	}
}

// countBackends sets the numbers of backends that the page does not show as such.
func (s *Snapshot) countBackends() {
	for _, q := range []config.Quantity{config.Backends, config.BackendsReady} {
		if _, shown := s.Values[q]; shown {
			continue
		}
		n, known := 0.0, false
		for _, b := range s.Backends {
			v, ok := b.Values[q]
			n, known = n+v, known || ok
		}
		if known {
			s.Values[q] = n
		}
	}
}

// GatewaySnapshot is what the pages of all replicas of a gateway show together. What
// no page shows is absent.
type GatewaySnapshot struct {
	// Software is the mapping that the first page was read with.
	Software string
	// Pages are the names of the pages that were read. What counts can be compared with an
	// earlier snapshot of the same pages.
	Pages []string
	// Failed is how many pages could not be read.
	Failed int
	// Values are the numbers as in a Snapshot, in the quantities of
	// config.GatewayNumbers, added up over the replicas. Those that are properties of
	// the backends are the largest instead: saturation and numbers of backends.
	Values map[config.Quantity]float64
	// Histograms are the distributions of config.GatewayDistributions, over all
	// replicas: count and sum alone where these have different bounds.
	Histograms map[config.Quantity]*Histogram
	// Requests counts ended requests by how they ended, as in a Snapshot.
	Requests map[string]float64
	// Backends are the same by the name of the backend, which is ready where
	// BackendsReady of its own values is 1, and not where it is 0.
	Backends map[string]*GatewaySnapshot
}

// NewGatewaySnapshot returns what the pages of the replicas of a gateway show together;
// nil where none could be read.
func NewGatewaySnapshot(statuses []Status) *GatewaySnapshot {
	all, failed := emptyGateway(), 0
	for i := range statuses {
		st := &statuses[i]
		if st.Snapshot == nil {
			failed++
			continue
		}
		all.Pages = append(all.Pages, st.Server)
		all.add(st.Snapshot)
		for name, b := range st.Snapshot.Backends {
			if all.Backends[name] == nil {
				all.Backends[name] = emptyGateway()
			}
			all.Backends[name].add(b)
		}
	}
	if len(all.Pages) == 0 {
		return nil
	}
	all.Failed = failed
	return all
}

func emptyGateway() *GatewaySnapshot {
	return &GatewaySnapshot{
		Values: map[config.Quantity]float64{}, Histograms: map[config.Quantity]*Histogram{},
		Requests: map[string]float64{}, Backends: map[string]*GatewaySnapshot{},
	}
}

// add adds what the page of one replica shows.
func (g *GatewaySnapshot) add(s *Snapshot) {
	if g.Software == "" {
		g.Software = s.Engine
	}
	for q, v := range s.Values {
		switch q {
		case config.Saturation, config.Backends, config.BackendsReady:
			g.Values[q] = max(g.Values[q], v)
		default:
			g.Values[q] += v
		}
	}
	for finish, n := range s.Requests {
		g.Requests[finish] += n
	}
	for q, h := range s.Histograms {
		g.Histograms[q] = sumOf(g.Histograms[q], h)
	}
}

// sumOf returns the observations of two histograms together; a is nil for none. Of
// different bounds only count and sum are kept.
func sumOf(a, b *Histogram) *Histogram {
	if a == nil {
		return b
	}
	sum := &Histogram{Count: a.Count + b.Count, Sum: a.Sum + b.Sum}
	if slices.Equal(a.Bounds, b.Bounds) {
		sum.Bounds = a.Bounds
		for i := range a.Counts {
			sum.Counts = append(sum.Counts, a.Counts[i]+b.Counts[i])
		}
	}
	return sum
}

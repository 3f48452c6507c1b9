// Package collector turns the results of probes into Prometheus metrics. It is
// the only package that knows the name of a metric.
//
// The families of probes and servers live in stores of plain arrays, because a scrape of thousands of series must not
// disturb the measurements beside it. Everything else is an ordinary client_golang registry; an Exposition writes them
// all.
//
// Families are described in families.yml. One of the series of probes is a row in a list beside: which endpoints
// and configurations have it, and a function of a result that says what to count. A counter of probes is
//
//	{Name: "probe_buffered_total", Count: func(p *probe, _ int) int { return one(p.Buffered) }},
//
// The room in each series, the zeros at the start and after a change of the
// model, the compact page and the documentation follow from the row.
package collector

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Probes is the store of the families of endpoints, of their probes and of their servers. It is safe for concurrent use.
type Probes struct {
	families
	now    func() time.Time
	labels *labeller
	gpus   func() gpu.Snapshots // nil without GPUs of this machine

	mu        sync.Mutex
	endpoints map[*Endpoint]struct{}
	ordered   probesPage

	stale atomic.Bool // ordered is to be rebuilt
}

// NewProbes returns an empty store. now is asked for the created timestamps of
// counters and for the end of the last hour.
func NewProbes(now func() time.Time) *Probes {
	return &Probes{families: allFamilies(), now: now, labels: newLabeller(), endpoints: make(map[*Endpoint]struct{})}
}

// families are those of Probes, each list sorted by name.
type families struct {
	rows     *probeTable
	infos    []*familyOf[struct{}]
	hardware []*familyOf[hardwareValues]
	spending []*familyOf[spending]
	states   []*familyOf[healthValues]
	found    []*familyOf[*findingsValues]
	served   []*familyOf[servedValues]
	servers  []*familyOf[serverValues]
}

// allFamilies are rendered once: each page of a probe on request has a store of its own.
var allFamilies = sync.OnceValue(func() families {
	return families{
		rows:     newProbeTable(probeFamilies()),
		infos:    []*familyOf[struct{}]{newOf("endpoint_info", emitOne(func(struct{}) float64 { return 1 }))},
		hardware: inOrder(hardwareFamilies()),
		spending: inOrder(spendingFamilies()),
		states:   inOrder(healthFamilies()),
		found:    inOrder(findingsFamilies()),
		served:   inOrder(servedFamilies()),
		servers:  inOrder(serverFamilies()),
	}
})

// SeriesOptions are what the configuration says of a series.
type SeriesOptions struct {
	// Kind is the kind of the endpoint; "" where the first result shows it.
	Kind api.Kind
	// Price is that of the tokens counted from now on. A series whose tokens have no
	// price has no cost; nil is no price.
	Price *config.Price
	// Verdicts are those that the answers may have, each of which gets a counter; none where they are not checked.
	Verdicts []result.Verdict
	// Calls gives the series the times of calls of tools.
	Calls bool
	// Objectives are counted against from zero; nil is none, and no family of theirs. Log
	// then has the window of the series, of what is added to it from now on.
	Objectives *series.Objectives
	Log        *series.Log
	// Interval is how often the series is probed, and Timeout how long a probe may
	// take. They are 0 for a series that an interval may leave out.
	Interval, Timeout time.Duration
	// SpentOnly is a series of no probes: it has the families of what is spent alone.
	SpentOnly bool

	since time.Time // when they were configured
}

// Open returns the series of id, which is the endpoint's, with these options. One that is new has
// all its counters at zero, so that rate() sees the first failure.
func (e *Endpoint) Open(id result.SeriesID, o SeriesOptions) *Series {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	i := slices.IndexFunc(e.series, func(s *Series) bool { return s.id == id })
	if i < 0 {
		i = len(e.series)
		s := &Series{store: e.store, id: id, labels: e.info.Labels, options: new(SeriesOptions)}
		s.restart()
		e.series = append(e.series, s)
	}
	e.series[i].configure(o)
	e.store.stale.Store(true)
	return e.series[i]
}

// Series holds the results of the probes of one ID. It is safe for concurrent use.
type Series struct {
	store  *Probes
	id     result.SeriesID
	labels map[string]string // those that are configured

	mu      sync.Mutex
	kind    api.Kind // "" until known
	model   string   // the same
	block   *labelBlock
	options *SeriesOptions
	created time.Time

	counts     tally         // by slot
	floats     []float64     // gauges and sums
	histograms []*histogram  // nil before the first observation
	slo        *slo          // nil without objectives
	steps      []series.Step // the latest of each metric
}

// restart sets all values to those of a new series.
func (s *Series) restart() {
	rows := s.store.rows
	s.created, s.counts, s.floats, s.steps = s.store.now(), nil, slices.Clone(rows.start), nil
	s.histograms = make([]*histogram, rows.hists)
	s.restartSLO()
}

// Add counts one result and takes the model label from it. Its tokens count whatever the
// outcome, because they were spent; a canceled probe says nothing else of the endpoint.
func (s *Series) Add(o *series.Observation) {
	p := &probe{Observation: o, on: onProbe, ok: o.Outcome == result.Success}
	if o.Outcome == result.Canceled {
		p.on = onCancel
	}
	p.timed = p.ok && o.Timed()
	s.take(p)
}

// Spend counts the tokens of a result that says nothing else, and their cost.
func (s *Series) Spend(r *result.Result) {
	s.take(&probe{Observation: &series.Observation{Result: r}, on: onSpend})
}

// Skip counts a probe that did not run.
func (s *Series) Skip(reason result.SkipReason) {
	s.take(&probe{Observation: &series.Observation{Result: new(result.Result)}, on: onSkip, skipped: reason})
}

func (s *Series) take(p *probe) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setServed(p.Kind, p.Model)
	p.tokens = believed(p.Tokens)
	s.count(p)
}

// count lets each row take notice of a probe.
func (s *Series) count(p *probe) {
	p.options = s.options
	if s.slo != nil {
		s.slo.judge(p.Judgement)
	}
	for _, f := range s.store.rows.families {
		if f.On&p.on != 0 {
			f.take(s, p)
		}
	}
}

// CountWait counts a user who came while a probe waited for its first token, and waited so long for one; negative is a
// token that did not come. The wait counts as a time to first token, and for the objective of it, which is missed if
// bad. Only series whose objectives count such users have any.
func (s *Series) CountWait(wait time.Duration, bad bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slo != nil {
		s.slo.count(series.TTFT, bad)
		r := &result.Result{Timing: result.Timing{TTFT: wait}}
		s.count(&probe{Observation: &series.Observation{Result: r}, on: onWait, timed: true})
	}
}

// configure sets the options of the series from now on.
func (s *Series) configure(o SeriesOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.since = s.store.now()
	s.options = &o
	s.restartSLO()
	s.block = s.newBlock()
	s.setServed(o.Kind, "")
}

// setServed sets the kind and the model label. What becomes known first keeps the values; another kind or model starts
// them at zero, as they belong to something else.
func (s *Series) setServed(kind api.Kind, model string) {
	model = boundModel(model)
	other := false
	if kind != "" && kind != s.kind {
		other = s.kind != ""
		s.kind = kind
	}
	if model != "" && model != s.model {
		other = other || s.model != ""
		s.model = model
		s.block = s.newBlock()
		s.store.stale.Store(true)
	}
	if other {
		s.restart()
	}
}

func (s *Series) newBlock() *labelBlock {
	return s.store.labels.block([]pair{
		{"endpoint", s.id.Endpoint},
		{"model", s.model},
		{"module", s.id.Module},
		{"prefix", s.id.Prefix},
		{"input_tokens", s.id.InputTokens},
		{"output_tokens", s.id.OutputTokens},
		{"concurrency", s.id.Concurrency},
	}, s.labels)
}

func (s *Series) encode(e encoder, f *probeFamily) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// While the kind is not known only the families of all kinds are shown.
	if f.Kinds != nil && !slices.Contains(f.Kinds, s.kind) || s.options.SpentOnly && f.On&onSpend == 0 {
		return
	}
	e.labels(s.block, s.created) // which the page may have of an earlier time
	f.show(e, s)
}

// probesPage is what a page of Probes shows, in its order. The slices are never changed once made.
type probesPage struct {
	infos    []labelled[struct{}] // of endpoints
	runsOn   []labelled[hardwareValues]
	spending []labelled[spending]
	states   []labelled[healthValues]
	series   []labelled[*Series]
	findings []labelled[*FindingsSeries] // those that have findings
	served   []*Endpoint                 // those of which servers show something
	servers  []*server

	servedNow  []labelled[servedValues] // what they show
	serversNow []labelled[serverValues]
}

// labelled is what the samples of one series come from, with its labels.
type labelled[V any] struct {
	block *labelBlock
	value V
}

// write implements Store.
func (p *Probes) write(e encoder) {
	page := p.page()
	writeSeries(e, p.infos, page.infos)
	writeSeries(e, p.hardware, p.addLocal(page.runsOn))
	writeSeries(e, p.spending, page.spending)
	writeSeries(e, p.states, page.states)
	writeSeries(e, p.rows.shown, page.series)
	writeSeries(e, p.found, latest(page.findings))
	writeSeries(e, p.served, page.servedNow)
	writeSeries(e, p.servers, page.serversNow)
}

func writeSeries[V any](e encoder, families []*familyOf[V], series []labelled[V]) {
	for _, f := range families {
		if e.out().err != nil {
			return
		}
		e.begin(f.family)
		for i := range series {
			e.labels(series[i].block, time.Time{})
			f.emit(e, f.family, series[i].value)
			e.flush()
		}
		e.end()
	}
}

// page returns what is known now. All families of servers of a page come from the same statuses.
func (p *Probes) page() probesPage {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.endpoints {
		e.labelServed()
	}
	if p.stale.Swap(false) {
		p.order()
	}
	page := p.ordered
	page.readServers()
	return page
}

// order puts everything in the order of its labels.
func (p *Probes) order() {
	p.ordered = probesPage{}
	o := &p.ordered
	for e := range p.endpoints {
		o.infos = append(o.infos, labelled[struct{}]{block: e.block})
		if e.info.Hardware != nil {
			o.runsOn = append(o.runsOn, e.hardware)
		}
		if e.spending != nil {
			o.spending = append(o.spending, *e.spending)
		}
		if e.state != nil {
			o.states = append(o.states, labelled[healthValues]{e.state, newHealth(e.info, p.labels)})
		}
		for _, s := range e.series {
			s.mu.Lock()
			o.series = append(o.series, labelled[*Series]{s.block, s})
			s.mu.Unlock()
		}
		for _, s := range e.findings {
			if v := s.current.Load(); v != nil {
				o.findings = append(o.findings, labelled[*FindingsSeries]{v.block, s})
			}
		}
		if e.servers.block != nil {
			o.served = append(o.served, e)
		}
		o.servers = slices.AppendSeq(o.servers, maps.Values(e.servers.all))
	}
	sortLabelled(o.infos)
	sortLabelled(o.runsOn)
	sortLabelled(o.spending)
	sortLabelled(o.states)
	sortLabelled(o.series)
	sortLabelled(o.findings)
	slices.SortFunc(o.served, func(a, b *Endpoint) int { return compareLabels(a.servers.block, b.servers.block) })
	slices.SortFunc(o.servers, func(a, b *server) int { return compareLabels(a.block, b.block) })
}

func sortLabelled[V any](all []labelled[V]) {
	slices.SortFunc(all, func(a, b labelled[V]) int { return compareLabels(a.block, b.block) })
}

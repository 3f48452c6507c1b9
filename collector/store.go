// Package collector turns the results of probes into Prometheus metrics. It is
// the only package that knows the name of a metric.
//
// The families of probes and servers live in stores of plain arrays, because a
// scrape of thousands of series must not disturb the measurements beside it.
// Everything else is an ordinary client_golang registry; an Exposition writes
// them all.
package collector

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Probes is the store of the families of probes and endpoints. It is safe for
// concurrent use.
type Probes struct {
	now      func() time.Time
	reserved []string
	outcomes map[result.Outcome]int // index in values.results
	families []*probeFamily         // sorted by name
	info     *family
	hardware []*hardwareFamily    // sorted by name
	spending []*spendingFamily    // sorted by name
	found    []*findingsFamily    // sorted by name
	gpus     func() *gpu.Snapshot // nil without GPUs of this machine

	mu        sync.Mutex
	series    map[string]*Series         // by ID.key
	findings  map[string]*FindingsSeries // by FindingsID.key
	endpoints map[string]*endpoint       // by name
	ordered   probesPage

	stale atomic.Bool // ordered is to be made anew
}

// NewProbes returns an empty store. now is asked for the created timestamps of
// counters and for the end of the last hour.
func NewProbes(now func() time.Time) *Probes {
	p := &Probes{
		now:       now,
		reserved:  ReservedLabels(),
		outcomes:  make(map[result.Outcome]int),
		families:  probeFamilies(),
		info:      endpointInfoFamily(),
		hardware:  hardwareFamilies(),
		spending:  spendingFamilies(),
		found:     findingsFamilies(),
		series:    make(map[string]*Series),
		findings:  make(map[string]*FindingsSeries),
		endpoints: make(map[string]*endpoint),
	}
	for i, o := range result.Outcomes() {
		p.outcomes[o] = i
	}
	slices.SortFunc(p.hardware, compareNames)
	slices.SortFunc(p.spending, compareNames)
	slices.SortFunc(p.families, compareNames)
	slices.SortFunc(p.found, compareNames)
	return p
}

// ID identifies a series of probes, the configured labels included.
type ID struct {
	// Endpoint, Module and Prefix are the values of the labels of that name.
	Endpoint, Module, Prefix string
	// InputTokens and OutputTokens are the lengths of a rung of a ladder, and
	// Concurrency the size of a burst; "" where there is none, which is no label.
	InputTokens, OutputTokens, Concurrency string
	// Labels are the configured labels. Names in ReservedLabels are ignored,
	// as are empty values.
	Labels map[string]string
}

// key returns a string that is equal for equal IDs only.
func (id ID) key() string {
	return labelsKey(id.Labels, id.Endpoint, id.Module, id.Prefix, id.InputTokens, id.OutputTokens, id.Concurrency)
}

// labelsKey returns a string that is equal only for equal labels and values.
func labelsKey(labels map[string]string, values ...string) string {
	var b []byte
	for _, v := range values {
		b = strconv.AppendQuote(b, v)
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		b = strconv.AppendQuote(b, name)
		b = strconv.AppendQuote(b, labels[name])
	}
	return string(b)
}

// Series returns the series of id, which it creates if there is none: at once
// with all its counters at zero, so that rate() sees the first failure.
func (p *Probes) Series(id ID) *Series {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := id.key()
	if s, ok := p.series[key]; ok {
		return s
	}
	id.Labels = maps.Clone(id.Labels)
	s := &Series{store: p, id: id, values: newValues(p.now)}
	s.block = s.labels("")
	p.series[key] = s
	p.stale.Store(true)
	return s
}

// Remove takes the series of id off the page. What is observed into it later
// is lost.
func (p *Probes) Remove(id ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.series, id.key())
	p.stale.Store(true)
}

// Series holds what the probes of one ID found out. It is safe for concurrent
// use.
type Series struct {
	store *Probes
	id    ID

	mu     sync.Mutex
	model  string
	block  *labelBlock
	values *values
}

// Observe counts one result and takes the model label from it. Its latencies count
// only if the prober vouches for them.
func (s *Series) Observe(r *result.Result) { s.observe(r, !r.Imprecise) }

// ObserveDisturbed is Observe for a result that load of the exporter's own has
// disturbed: its latencies do not count, and it must not be judged.
func (s *Series) ObserveDisturbed(r *result.Result) {
	s.observe(r, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Outcome != result.Canceled {
		s.values.disturbed++
	}
}

func (s *Series) observe(r *result.Result, timed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setServed(r.Kind, r.Model)
	s.values.observe(r, s.store.outcomes, timed)
}

// Spend counts the tokens of a result that says nothing else, and their cost.
func (s *Series) Spend(r *result.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setServed(r.Kind, r.Model)
	s.values.spend(r.Tokens)
}

// Skip counts a probe that did not run.
func (s *Series) Skip(reason SkipReason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values.skip(reason)
}

// SetKind tells the kind of the endpoint before its first result.
func (s *Series) SetKind(k api.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setServed(k, "")
}

// SetPace sets how often the series is probed from now on, and how long a probe may
// take.
func (s *Series) SetPace(interval, timeout time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values.interval.set(interval.Seconds())
	s.values.timeout.set(timeout.Seconds())
	s.values.configured.set(unixSeconds(s.store.now()))
}

// setServed sets the kind and the model label. What becomes known first keeps
// the values; another kind or model starts them at zero, as they belong to
// something else.
func (s *Series) setServed(kind api.Kind, model string) {
	model = boundModel(model)
	other := false
	if kind != "" && kind != s.values.kind {
		other = s.values.kind != ""
		s.values.kind = kind
	}
	if model != "" && model != s.model {
		other = other || s.model != ""
		s.model, s.block = model, s.labels(model)
		s.store.stale.Store(true)
	}
	if other {
		s.values = s.values.restart()
	}
}

// labels renders the labels of the series.
func (s *Series) labels(model string) *labelBlock {
	return newLabelBlock([]pair{
		{"endpoint", s.id.Endpoint},
		{"model", model},
		{"module", s.id.Module},
		{"prefix", s.id.Prefix},
		{"input_tokens", s.id.InputTokens},
		{"output_tokens", s.id.OutputTokens},
		{"concurrency", s.id.Concurrency},
	}, s.id.Labels, s.store.reserved)
}

// encode appends the samples of one family.
func (s *Series) encode(e encoder, f *probeFamily) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !f.isFor(s.values.kind) {
		return
	}
	e.labels(s.block, s.values.created)
	f.emit(e, f.family, s.values)
}

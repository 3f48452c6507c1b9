package collector

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/estimate"
)

// FindingsID identifies what the probes of one endpoint and module tell
// together.
type FindingsID struct {
	// Endpoint and Module are the values of the labels of that name.
	Endpoint, Module string
	// Labels are the configured labels, as in SeriesOptions. They must not be changed
	// afterwards.
	Labels map[string]string
}

// key returns a string that is equal for equal IDs only.
func (id FindingsID) key() string { return labelsKey(id.Labels, id.Endpoint, id.Module) }

// FindingsSeries shows what the probes of one endpoint and module tell
// together: nothing until there are findings.
type FindingsSeries struct {
	store   *Probes
	id      FindingsID
	current atomic.Pointer[findingsValues] // nil without findings
}

// findingsValues is the state behind the samples of findings. It is immutable.
type findingsValues struct {
	*estimate.Findings
	model   string // as in block
	block   *labelBlock
	created time.Time
	bursts  []*labelBlock // by index in Bursts
}

// Findings returns the series of id, which it creates if there is none.
func (p *Probes) Findings(id FindingsID) *FindingsSeries {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := id.key()
	if s, ok := p.findings[key]; ok {
		return s
	}
	s := &FindingsSeries{store: p, id: id}
	p.findings[key] = s
	return s
}

// RemoveFindings takes the series of id off the page. What is set in it later
// is lost.
func (p *Probes) RemoveFindings(id FindingsID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.findings, id.key())
	p.stale.Store(true)
}

// Set shows findings, which must not be changed afterwards; nil shows none. Its
// calls must come one after the other, in the order in which the findings were
// made: with older ones the counters would fall. The counters of another model
// begin anew.
func (s *FindingsSeries) Set(f *estimate.Findings) {
	if f == nil {
		if s.current.Swap(nil) != nil {
			s.store.stale.Store(true)
		}
		return
	}
	next := &findingsValues{Findings: f, model: boundModel(f.Model), created: s.store.now()}
	before := s.current.Load()
	same := before != nil && before.model == next.model
	if same || before != nil && before.model == "" {
		next.created = before.created
	}
	if same {
		next.block = before.block
	} else {
		next.block = s.labels(next.model, "")
	}
	for _, b := range f.Bursts {
		next.bursts = append(next.bursts, s.labels(next.model, strconv.Itoa(b.Concurrency)))
	}
	s.current.Store(next)
	if !same {
		s.store.stale.Store(true)
	}
}

// labels renders the labels of the series, or of one of its bursts.
func (s *FindingsSeries) labels(model, concurrency string) *labelBlock {
	return newLabelBlock([]pair{
		{"endpoint", s.id.Endpoint}, {"model", model}, {"module", s.id.Module}, {"concurrency", concurrency},
	}, s.id.Labels, s.store.reserved)
}

// latest returns what the series show now. All families of a page come from the
// same findings.
func latest(all []*FindingsSeries) []labelled[*findingsValues] {
	out := make([]labelled[*findingsValues], 0, len(all))
	for _, s := range all {
		if v := s.current.Load(); v != nil {
			out = append(out, labelled[*findingsValues]{v.block, v})
		}
	}
	return out
}

package estimate

import (
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Options are what a Tracker must know of its endpoint and module. What the
// module asks shows in its results.
type Options struct {
	// Now is the clock.
	Now func() time.Time
	// TTFT is the objective that bursts are held against; 0 is none, and then
	// there is no knee.
	TTFT time.Duration
}

// Tracker draws conclusions from the results of one endpoint and module, all
// rungs of its ladders together. Its methods may be called at the same time.
type Tracker struct {
	options Options
	mu      sync.Mutex
	state   state
}

// state is what is known of one model.
type state struct {
	model   string
	prefill prefill
	pairs   pairs
	cache   cache
	bursts  bursts
	named   [numNamed]changes // by index in Sources
	score   score
}

// NewTracker returns a tracker that knows nothing.
func NewTracker(o Options) *Tracker { return &Tracker{options: o} }

// Observe adds the results of one run, and returns what all tell together: nil
// where that is nothing. Results of a new model make it forget the old one.
func (t *Tracker) Observe(results []*result.Result) *Findings {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.options.Now()
	for _, r := range results {
		if r.Model == "" || r.Model == t.state.model {
			continue
		}
		if t.state.model != "" {
			t.state = state{}
		}
		t.state.model = r.Model
	}
	for _, r := range results {
		if r.Outcome != result.Canceled {
			t.state.observe(r, now)
		}
	}
	t.state.pairs.observe(results, now)
	t.state.bursts.observe(results, t.options.TTFT)
	return t.state.findings(now)
}

// observe adds one result.
func (s *state) observe(r *result.Result, now time.Time) {
	s.prefill.observe(r, now)
	s.cache.observe(r, now)
	s.score.observe(r, now)
	a := &r.Answer
	s.named[indexAnswer].observe(a.Prompt, a.Hash, answerRule(), now)
	s.named[indexFingerprint].observe("", a.Fingerprint, nameRule(), now)
	s.named[indexModel].observe("", a.Model, nameRule(), now)
}

// findings puts together what is known.
func (s *state) findings(now time.Time) *Findings {
	f := &Findings{
		Model:      s.model,
		Prefill:    s.prefill.estimate(now),
		HitRatio:   s.cache.hitRatio(now),
		Benefit:    s.pairs.benefit(now),
		ColdCached: s.cache.coldCached,
		ColdTold:   s.cache.coldTold,
		Knee:       s.bursts.knee,
		Bursts:     s.bursts.latest,
		Logprob:    s.score.latest,
	}
	// Some servers write 0 cached tokens into every reply, whatever their cache did.
	if s.cache.tellsNoHits() && !s.pairs.allowNoHits(f.Benefit) {
		f.HitRatio, f.ColdTold = nil, false
	}
	for i := range s.named {
		c := &s.named[i]
		f.Changes[i], f.LastChange[i], f.Watched[i] = c.count, c.last, c.prompts != nil
	}
	f.Changes[indexLogprob], f.LastChange[indexLogprob] = s.score.count, s.score.last
	f.Watched[indexLogprob] = s.score.latest != nil
	if f.isEmpty() {
		return nil
	}
	return f
}

// isEmpty tells whether the findings tell nothing.
func (f *Findings) isEmpty() bool {
	return f.Prefill == nil && f.HitRatio == nil && f.Benefit == nil && !f.ColdTold &&
		len(f.Bursts) == 0 && f.Watched == [len(f.Watched)]bool{}
}

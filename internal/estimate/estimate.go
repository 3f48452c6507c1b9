// Package estimate makes statements from few noisy measurements: what a prompt
// costs by its length, what a cached prefix is worth, how many requests at once
// an endpoint carries, and whether what should stay the same has changed. A
// statement that the measurements do not support is not made.
package estimate

import (
	"cmp"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Interval is an estimate with the bounds that it lies between with 95 %
// confidence.
type Interval struct {
	Value, Lower, Upper float64
}

// Prefill is the estimate of the prefill of one endpoint: TTFT is the fixed
// part and then grows with each prompt token that is not in the prefix cache. It
// is that of the typical probe: few slow ones do not move it. It assumes that
// each token takes as long as another, and that the noise of probes is
// independent and in proportion to TTFT; slow hours that the samples share are
// in the value and not in the bounds.
type Prefill struct {
	// TokensPerSecond is the speed on uncached prompt tokens.
	TokensPerSecond Interval
	// FixedSeconds is the part that does not depend on the length: network,
	// queue, tokenising of the least, and the first step of decoding. It cannot be
	// negative, so that neither is its lower bound.
	FixedSeconds Interval
}

// Knee is where the bursts of a run begin to miss the objective: more than a tenth
// of the requests have their first token later, or fail. The first burst misses
// it only by being slow or turned away; other failures are no matter of load.
type Knee struct {
	// Concurrency is the size of the smallest burst that did.
	Concurrency int
	// TokensPerSecond is the output of that burst, as in Burst; 0 is not known.
	TokensPerSecond float64
}

// Carried is the largest burst of a run, below its knee, that met the objective and of
// which no request failed.
type Carried struct {
	// Concurrency is the size of that burst.
	Concurrency int
	// TokensPerSecond is the output of that burst, as in Burst; 0 is not known.
	TokensPerSecond float64
}

// Source is what was watched for a change. The set is closed: it is a label
// value.
type Source string

// The sources.
const (
	SourceAnswer      Source = "answer"             // the text of the answer to a fixed prompt
	SourceFingerprint Source = "system_fingerprint" // the system as the reply names it
	SourceModel       Source = "model"              // the model as the reply names it
	SourceLogprob     Source = "logprob"            // the score of the reference passage
	// The first tokens of answers to prompts of one word.
	SourceFirstToken        Source = "first_token"
	SourceFirstTokenLogprob Source = "first_token_logprob" // their log-probabilities
	SourceEmbedding         Source = "embedding"           // the vectors of the reference texts
	SourceRerank            Source = "rerank"              // the scores of the reference texts
)

// Sources lists the closed set.
func Sources() []Source {
	return []Source{SourceAnswer, SourceFingerprint, SourceModel, SourceLogprob, SourceFirstToken, SourceFirstTokenLogprob, SourceEmbedding, SourceRerank}
}

// Findings is what the results of one endpoint and module give together. It is
// never changed once made; nil is not known.
type Findings struct {
	// Model is the model that this is about; "" is not known.
	Model   string
	Prefill *Prefill
	// HitRatio is the share of the prompt that came from the prefix cache in the
	// warm half of pairs or in warm probes, as the replies report. A ratio of 0 that
	// the pairs' own TTFT contradicts, or cannot confirm yet, is not known.
	HitRatio *float64
	// Benefit is by how many seconds the second of a pair has its first token
	// earlier than the first.
	Benefit *Interval
	// ColdCached counts cold probes of whose prompt more came from the cache than
	// the server's own template can be: a fault of the prober or of the server's
	// count. ColdTold reports whether any reply to a cold probe reported the cache;
	// without, ColdCached is not known.
	ColdCached uint64
	ColdTold   bool
	Knee       *Knee
	Carried    *Carried
	// Changes counts the changes by index in Sources, and LastChange are their
	// times; Watched marks the sources that have anything to watch.
	Changes    [numSources]uint64
	LastChange [numSources]time.Time
	Watched    [numSources]bool
	// Logprob is the latest mean log-probability of the reference passage, in
	// nats per token.
	Logprob *float64
	// Likeness compares what a module asks with what users ask; nil is not known.
	Likeness *Likeness
	// Turns are those of conversations, by affinity and number.
	Turns []Turn
	// Shift is the latest comparison of the first tokens of answers; nil without.
	Shift *Shift
	// Drift compares the latest answer to the reference texts with the first.
	Drift *Drift
	// Bursts are the bursts of the latest run, small ones first.
	Bursts []Burst
	// Arrivals is how the requests of the bursts arrive; nil is all at once.
	Arrivals *config.Arrivals
	// Integrity is what the inspection of answers found; nil before the first finding.
	Integrity *Integrity
}

// Burst is what requests that started together came to.
type Burst struct {
	// Concurrency is how many there were to be.
	Concurrency int
	// Failed is how many of them did not succeed.
	Failed int
	// TokensPerSecond is the output of those that succeeded, by the server's own
	// count, over the time from the first start to the last end; 0 is not known.
	TokensPerSecond float64
	// StartSpread is the time from the first start to the last one; negative is
	// not known.
	StartSpread time.Duration
}

// Options are what a Tracker must know of its endpoint and module. What the
// module asks shows in its results.
type Options struct {
	// Now is the clock.
	Now func() time.Time
	// TTFT is the objective that bursts are held against; 0 is none, and then
	// there is no knee.
	TTFT time.Duration
	// Arrivals is how the requests of bursts arrive; nil is all at once.
	Arrivals *config.Arrivals
	// FirstTokens is how many first tokens of the latest answers are compared with
	// those before them; needed where they are watched.
	FirstTokens int
}

// Tracker draws conclusions from the results of one endpoint and module, all
// rungs of its ladders together. Its methods may be called at the same time.
type Tracker struct {
	options Options
	mu      sync.Mutex
	follows *follower // nil of a module that does not ask what users ask
	state   state
}

// state is what is known of one model.
type state struct {
	model   string
	window  int // of firstTokens
	prefill prefill
	pairs   pairs
	cache   cache
	bursts  bursts
	talks   conversations
	named   [numNamed]changes // by index in Sources
	score   score
	first   *firstTokens // nil until there is one

	integrity integrity
	drift     *drift // nil until there is an answer to the reference texts
}

// NewTracker returns a tracker that knows nothing.
func NewTracker(o Options) *Tracker { return &Tracker{options: o, state: state{window: o.FirstTokens}} }

// Follow has the tracker compare what the module asks with what users ask; the lengths of
// the module are bounded. It is to be called before Observe.
func (t *Tracker) Follow(users *Traffic, maxInput, maxOutput int) {
	t.follows = &follower{users: users, maxInput: maxInput, maxOutput: maxOutput}
}

// Observe adds the results of one run, and returns what all give together: nil
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
			t.state = state{window: t.options.FirstTokens}
		}
		t.state.model = r.Model
	}
	for _, r := range results {
		if r.Outcome != result.Canceled {
			t.state.observe(r, now)
		}
	}
	t.state.pairs.observe(results, now)
	t.state.talks.observe(results, now)
	t.state.bursts.observe(results, t.options.TTFT)
	f := t.state.findings(now)
	if f != nil && len(f.Bursts) > 0 {
		f.Arrivals = t.options.Arrivals
	}
	if t.follows != nil {
		t.follows.observe(results, now)
		f = f.with(t.state.model, t.follows.likeness(now))
	}
	return f
}

// observe adds one result.
func (s *state) observe(r *result.Result, now time.Time) {
	s.prefill.observe(r, now)
	s.cache.observe(r, now)
	s.score.observe(r, now)
	s.integrity.observe(r)
	if r.First != nil {
		s.first = cmp.Or(s.first, &firstTokens{window: s.window})
		s.first.observe(r, now)
	}
	s.observeDrift(r, now)
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
		Carried:    s.bursts.carried,
		Turns:      s.talks.turns(now),
		Bursts:     s.bursts.latest,
		Logprob:    s.score.latest,
		Integrity:  s.integrity.found(),
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
	if s.first != nil {
		s.first.findings(f)
	}
	if d := s.drift; d != nil {
		f.Drift = d.latest
		f.Changes[d.index], f.LastChange[d.index], f.Watched[d.index] = d.count, d.last, true
	}
	if f.isEmpty() {
		return nil
	}
	return f
}

// isEmpty reports whether there are no findings.
func (f *Findings) isEmpty() bool {
	return f.Prefill == nil && f.HitRatio == nil && f.Benefit == nil && !f.ColdTold &&
		len(f.Bursts) == 0 && len(f.Turns) == 0 && f.Watched == [len(f.Watched)]bool{} && f.Integrity == nil
}

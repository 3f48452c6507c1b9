package simulator

import (
	"maps"
	"slices"
	"sort"
	"time"
)

// State is what a replica holds and has done.
type State struct {
	// Running and Waiting count sequences in the batch and in the queue.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// Blocks is the size of the KV cache, BlocksInUse the part that sequences
	// own; a block kept only for reuse is not in use.
	Blocks      int `json:"blocks"`
	BlocksInUse int `json:"blocks_in_use"`
	// PrefixQueries and PrefixHits count prompt tokens looked up and found in
	// the prefix cache, once per request.
	PrefixQueries uint64 `json:"prefix_queries"`
	PrefixHits    uint64 `json:"prefix_hits"`
	// PromptTokens counts prompts whose prefill is done, cached part included.
	PromptTokens uint64 `json:"prompt_tokens"`
	// GeneratedTokens counts sampled tokens.
	GeneratedTokens uint64 `json:"generated_tokens"`
	// Preemptions counts sequences thrown back into the queue.
	Preemptions uint64 `json:"preemptions"`
	// Finished counts requests by how they ended: stop, length, abort.
	Finished map[string]uint64 `json:"finished"`
}

func (r *replica) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := State{
		Running: len(r.running), Waiting: len(r.waiting),
		Blocks: r.o.Blocks, BlocksInUse: r.pool.inUse(),
		PrefixQueries: r.stats.queries, PrefixHits: r.stats.hits,
		PromptTokens: r.stats.prompt, GeneratedTokens: r.stats.generated,
		Preemptions: r.stats.preemptions,
		Finished:    make(map[string]uint64),
	}
	for reason, n := range r.stats.finished {
		s.Finished[string(reason)] = n
	}
	return s
}

// stats are the counters of one replica.
type stats struct {
	queries, hits     uint64
	prompt, cached    uint64
	generated         uint64
	preemptions       uint64
	finished          map[finish]uint64
	ttft, interToken  histogram // observed as tokens come
	perToken          histogram // the rest when a request ends
	e2e, queue        histogram
	inference         histogram
	prefill, decoding histogram
}

// Bounds of vLLM's histograms, in seconds.
func boundsTTFT() []float64 {
	return []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
}

func boundsToken() []float64 {
	return []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
}

func boundsPhase() []float64 {
	return []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
}

func newStats() stats {
	return stats{
		finished: map[finish]uint64{finishStop: 0, finishLength: 0, finishAbort: 0},
		ttft:     newHistogram(boundsTTFT()), interToken: newHistogram(boundsToken()),
		perToken: newHistogram(boundsToken()), e2e: newHistogram(boundsPhase()),
		queue: newHistogram(boundsPhase()), inference: newHistogram(boundsPhase()),
		prefill: newHistogram(boundsPhase()), decoding: newHistogram(boundsPhase()),
	}
}

// clone copies s, so that it can be read without the replica's lock.
func (s *stats) clone() stats {
	c := *s
	c.finished = maps.Clone(s.finished)
	for _, h := range []*histogram{&c.ttft, &c.interToken, &c.perToken, &c.e2e, &c.queue, &c.inference, &c.prefill, &c.decoding} {
		h.counts = slices.Clone(h.counts)
	}
	return c
}

// sampled counts the token that q just got; q.last is still the one before.
func (s *stats) sampled(q *sequence, now time.Time) {
	s.generated++
	if q.generated() > 1 {
		s.interToken.observe(now.Sub(q.last))
		return
	}
	p := q.progress()
	s.prompt += uint64(q.prompt)
	s.cached += uint64(p.cached)
	s.ttft.observe(now.Sub(p.arrival))
}

// ended counts a request at its end; last is the instant of its last token.
func (s *stats) ended(p progress, reason finish, now, last time.Time) {
	s.finished[reason]++
	if reason == finishAbort {
		return
	}
	s.e2e.observe(now.Sub(p.arrival))
	s.queue.observe(p.scheduled.Sub(p.arrival))
	s.inference.observe(last.Sub(p.scheduled))
	s.prefill.observe(p.first.Sub(p.scheduled))
	s.decoding.observe(last.Sub(p.first))
	if p.tokens > 1 {
		s.perToken.observe(last.Sub(p.first) / time.Duration(p.tokens-1))
	}
}

// histogram is a classic one; counts has one more entry than bounds, for what
// is beyond the last, and each counts its own bucket only.
type histogram struct {
	bounds []float64
	counts []uint64
	sum    float64 // seconds
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(d time.Duration) {
	h.sum += d.Seconds()
	h.counts[sort.SearchFloat64s(h.bounds, d.Seconds())]++
}

// cumulative returns the number of observations, and of those up to each bound.
func (h *histogram) cumulative() (uint64, map[float64]uint64) {
	total := uint64(0)
	buckets := make(map[float64]uint64, len(h.bounds))
	for i, bound := range h.bounds {
		total += h.counts[i]
		buckets[bound] = total
	}
	return total + h.counts[len(h.bounds)], buckets
}

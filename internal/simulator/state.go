package simulator

import (
	"maps"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
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
	// ReusedBlocks and MissedBlocks count full blocks of prompts that were in
	// the prefix cache and that were not, once per request.
	ReusedBlocks uint64 `json:"reused_blocks"`
	MissedBlocks uint64 `json:"missed_blocks"`
	// EvictableBlocks counts blocks not in use whose content can be found.
	EvictableBlocks int `json:"evictable_blocks"`
	// EvictedBlocks counts blocks whose content was given up for another.
	EvictedBlocks uint64 `json:"evicted_blocks"`
	// PromptTokens counts prompts whose prefill is done, cached part included;
	// CachedTokens is that part.
	PromptTokens uint64 `json:"prompt_tokens"`
	CachedTokens uint64 `json:"cached_tokens"`
	// PrefillComputed and PrefillCached count prompt tokens as a batch takes them
	// up: computed, or found in the prefix cache; after a preemption again.
	PrefillComputed uint64 `json:"prefill_computed"`
	PrefillCached   uint64 `json:"prefill_cached"`
	// GeneratedTokens counts sampled tokens.
	GeneratedTokens uint64 `json:"generated_tokens"`
	// Ended counts the tokens of the requests that came to their end.
	Ended Tokens `json:"ended"`
	// Steps counts passes of the model over the batch.
	Steps uint64 `json:"steps"`
	// Preemptions counts sequences thrown back into the queue.
	Preemptions uint64 `json:"preemptions"`
	// Rejected counts requests that found the queue full.
	Rejected uint64 `json:"rejected"`
	// FirstTokens counts requests that got a first token, FirstTokenSeconds
	// is the sum of the times that they waited for it.
	FirstTokens       uint64  `json:"first_tokens"`
	FirstTokenSeconds float64 `json:"first_token_seconds"`
	// Finished counts requests by how they ended: stop, length, abort.
	Finished map[string]uint64 `json:"finished"`
}

// Tokens are those of requests that ended by themselves, not aborted. Prompt
// includes Cached.
type Tokens struct {
	Prompt    uint64 `json:"prompt"`
	Cached    uint64 `json:"cached"`
	Generated uint64 `json:"generated"`
}

// Usage is the part of the KV cache in use, 0 to 1.
func (s State) Usage() float64 { return float64(s.BlocksInUse) / float64(s.Blocks) }

// state returns the state as of now.
func (r *replica) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.count
	s.Running, s.Waiting = len(r.running), len(r.waiting)
	s.Blocks, s.BlocksInUse, s.EvictedBlocks = r.o.Blocks, r.pool.inUse(), r.pool.evicted
	s.EvictableBlocks = r.pool.evictable()
	s.Finished = maps.Clone(s.Finished)
	return s
}

// countAdmission counts the first admission of q, with blocks of its prompt
// found in the prefix cache; a text that is scored is not looked up there.
func (r *replica) countAdmission(q *sequence, blocks int) {
	if q.scored {
		return
	}
	c := &r.count
	c.PrefixQueries += uint64(q.prompt)
	c.PrefixHits += uint64(blocks * r.o.BlockSize)
	c.ReusedBlocks += uint64(blocks)
	c.MissedBlocks += uint64(q.prompt/r.o.BlockSize - blocks)
}

// countToken counts the token that q just got; q.last is still the instant of
// the one before.
func (r *replica) countToken(q *sequence, now time.Time) {
	c := &r.count
	c.GeneratedTokens++
	if q.generated() > 1 {
		r.observe(q, "inter_token", now.Sub(q.last).Seconds())
		return
	}
	p := q.progress()
	waited := now.Sub(p.arrival).Seconds()
	c.PromptTokens += uint64(q.prompt)
	c.CachedTokens += uint64(p.cached)
	c.FirstTokens++
	c.FirstTokenSeconds += waited
	r.observe(q, "first_token", waited)
}

// countEnd counts a request at its end.
func (r *replica) countEnd(q *sequence, reason finish) {
	c := &r.count
	c.Finished[string(reason)]++
	if reason == finishAbort {
		r.observe(q, "aborted", 1)
		return
	}
	p := q.progress()
	c.Ended.Prompt += uint64(q.prompt)
	c.Ended.Cached += uint64(p.cached)
	c.Ended.Generated += uint64(p.tokens)
	r.observeEnd(q, &p)
}

// observeEnd reports a request that was not aborted; q.last is the instant of
// its last token.
func (r *replica) observeEnd(q *sequence, p *progress) {
	for of, d := range map[string]time.Duration{
		"end_to_end": q.last.Sub(p.arrival), "queue": p.scheduled.Sub(p.arrival), "inference": q.last.Sub(p.scheduled),
		"prefill": p.first.Sub(p.scheduled), "decode": q.last.Sub(p.first),
	} {
		r.observe(q, of, d.Seconds())
	}
	if p.tokens > 1 {
		r.observe(q, "per_token", q.last.Sub(p.first).Seconds()/float64(p.tokens-1))
	}
	if p.cached > 0 {
		r.observe(q, "cached_tokens", float64(p.cached))
	}
	r.observe(q, "prompt_tokens", float64(q.prompt))
	r.observe(q, "generated_tokens", float64(p.tokens))
	r.observe(q, "completed", 1)
}

// Counts are of the requests that were answered to their end, over all
// replicas.
type Counts struct {
	// Verdicts counts the answers to questions by what they came to, as
	// Record.Verdict has it.
	Verdicts map[result.Verdict]uint64 `json:"verdicts"`
	// Flipped counts greedy answers that were not what they are most times.
	Flipped uint64 `json:"flipped"`
	// Scored counts texts whose log-probabilities were returned.
	Scored uint64 `json:"scored"`
}

// Counts returns what the server has answered.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.counts
	now.Verdicts = maps.Clone(s.counts.Verdicts)
	return now
}

// countAnswer counts a request that ended without an error.
func (s *Server) countAnswer(x *exchange) {
	if x.seq == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.verdict != "" {
		s.counts.Verdicts[x.verdict]++
	}
	if x.text.flipAt > 0 {
		s.counts.Flipped++
	}
	if x.request.echo && !x.request.stream {
		s.counts.Scored++
	}
}

package simulator

import (
	"maps"
	"time"
)

// class divides what a replica counts by the kind of the request.
type class int

const (
	unary     class = iota // answered with one body
	streaming              // answered token by token
	shared                 // what belongs to no request: steps
	classes                // how many there are
)

// stats are the counters of one class in one replica.
type stats struct {
	submitted, rejected uint64
	queries, hits       uint64 // tokens, at the first admission
	reusedBlocks        uint64 // full blocks of prompts, then too
	missedBlocks        uint64
	found, computed     uint64 // prompt tokens from the cache and not, as they come, after a preemption again
	prompt, cached      uint64 // at the first token
	prefillSeconds      float64
	generated           uint64
	ended               Tokens
	preemptions         uint64
	finished            map[finish]uint64
	longest             int // tokens of the longest sequence so far
	observed            [quantities]histogram
}

func newStats(b bounds) stats {
	s := stats{finished: map[finish]uint64{finishStop: 0, finishLength: 0, finishAbort: 0}}
	for q := range quantities {
		s.observed[q] = newHistogram(b[q])
	}
	return s
}

// clone copies s, so that it can be read without the replica's lock.
func (s *stats) clone() stats {
	c := *s
	c.finished = maps.Clone(s.finished)
	for q := range quantities {
		c.observed[q] = s.observed[q].clone()
	}
	return c
}

// add puts what other counted into s.
func (s *stats) add(other *stats) {
	s.submitted += other.submitted
	s.rejected += other.rejected
	s.queries += other.queries
	s.hits += other.hits
	s.reusedBlocks += other.reusedBlocks
	s.missedBlocks += other.missedBlocks
	s.found += other.found
	s.computed += other.computed
	s.prompt += other.prompt
	s.cached += other.cached
	s.prefillSeconds += other.prefillSeconds
	s.generated += other.generated
	s.ended.Prompt += other.ended.Prompt
	s.ended.Cached += other.ended.Cached
	s.ended.Generated += other.ended.Generated
	s.preemptions += other.preemptions
	s.longest = max(s.longest, other.longest)
	for reason, n := range other.finished {
		s.finished[reason] += n
	}
	for q := range quantities {
		s.observed[q].add(&other.observed[q])
	}
}

// completed counts the requests that came to their end.
func (s *stats) completed() uint64 { return s.finished[finishStop] + s.finished[finishLength] }

// arrived counts a request that was taken into the queue.
func (s *stats) arrived(q *sequence) {
	s.submitted++
	s.observed[arrivedLength].observe(float64(q.prompt))
}

// admitted counts the first admission of q, with blocks of its prompt found in
// the prefix cache; a text that is scored is not looked up there.
func (s *stats) admitted(q *sequence, blocks, blockSize int) {
	if q.scored {
		return
	}
	s.queries += uint64(q.prompt)
	s.hits += uint64(blocks * blockSize)
	s.reusedBlocks += uint64(blocks)
	s.missedBlocks += uint64(q.prompt/blockSize - blocks)
}

// sampled counts the token that q just got; q.last is still the one before.
func (s *stats) sampled(q *sequence, now time.Time) {
	s.generated++
	s.longest = max(s.longest, len(q.tokens))
	if q.generated() > 1 {
		s.observed[interToken].observeTime(now.Sub(q.last))
		return
	}
	p := q.progress()
	s.prompt += uint64(q.prompt)
	s.cached += uint64(p.cached)
	s.prefillSeconds += now.Sub(p.scheduled).Seconds()
	s.observed[firstToken].observeTime(now.Sub(p.arrival))
	if q.class == streaming {
		s.observed[firstResponse].observeTime(now.Sub(p.arrival))
	}
}

// end counts a request at its end; q.last is the instant of its last token.
func (s *stats) end(q *sequence, reason finish, now time.Time) {
	s.finished[reason]++
	if reason == finishAbort {
		return
	}
	p := q.progress()
	s.ended.Prompt += uint64(q.prompt)
	s.ended.Cached += uint64(p.cached)
	s.ended.Generated += uint64(p.tokens)
	o := &s.observed
	o[endToEnd].observeTime(now.Sub(p.arrival))
	o[queueTime].observeTime(p.scheduled.Sub(p.arrival))
	o[inferenceTime].observeTime(q.last.Sub(p.scheduled))
	o[prefillTime].observeTime(p.first.Sub(p.scheduled))
	o[decodeTime].observeTime(q.last.Sub(p.first))
	o[meanToken].observe(q.last.Sub(p.scheduled).Seconds() / float64(p.tokens))
	if p.tokens > 1 {
		o[perToken].observeTime(q.last.Sub(p.first) / time.Duration(p.tokens-1))
	}
	if q.class == unary {
		o[firstResponse].observeTime(now.Sub(p.arrival))
	}
	o[promptLength].observe(float64(q.prompt))
	o[outputLength].observe(float64(p.tokens))
	o[cachedLength].observe(float64(p.cached))
	o[cachedPart].observe(float64(p.cached) / float64(q.prompt))
}

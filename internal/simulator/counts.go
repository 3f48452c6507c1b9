package simulator

import (
	"maps"
	"sync"

	"github.com/inference-exporter/inference_exporter/prober/check"
)

// Counts are of the requests that were answered to their end, over all
// replicas.
type Counts struct {
	// Verdicts counts the answers to questions by what they came to, as
	// Record.Verdict has it.
	Verdicts map[check.Verdict]uint64 `json:"verdicts"`
	// Flipped counts greedy answers that were not what they are most times.
	Flipped uint64 `json:"flipped"`
	// Scored counts texts whose log-probabilities were told.
	Scored uint64 `json:"scored"`
}

// Counts returns what the server has answered.
func (s *Server) Counts() Counts {
	c := s.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now
	now.Verdicts = maps.Clone(c.now.Verdicts)
	return now
}

// counts are Counts in the making.
type counts struct {
	mu  sync.Mutex
	now Counts // guarded by mu
}

func newCounts() *counts {
	c := &counts{now: Counts{Verdicts: make(map[check.Verdict]uint64)}}
	for _, v := range check.Verdicts() {
		c.now.Verdicts[v] = 0
	}
	return c
}

// answered counts a request that ended without an error.
func (c *counts) answered(x *exchange) {
	if x.seq == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.verdict != "" {
		c.now.Verdicts[x.verdict]++
	}
	if x.speech.turn > 0 {
		c.now.Flipped++
	}
	if x.ask.echo && !x.ask.stream {
		c.now.Scored++
	}
}

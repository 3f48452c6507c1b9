package lengths

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// maxConversations is how many of the latest conversations of each affinity count.
// They may be as old as pairs, and as few.
const maxConversations = 60

// Turn is what the latest conversations of one affinity show of one of their turns.
type Turn struct {
	Affinity result.Affinity
	// Number counts the turns from 1.
	Number int
	// HitRatio is the share of the prompt tokens that came from the prefix cache, as
	// the replies report; nil is not known. Ratios of 0 that TTFT contradicts are not
	// known either.
	HitRatio *float64
	// TTFT is the median in seconds; nil is not known.
	TTFT *float64
	// SameReplica is the share of the turns that the replica of the turn before
	// answered; nil of the first turn, and where replies do not name their replica.
	SameReplica *float64
}

// turn is what one turn of a conversation showed.
type turn struct {
	ttft           float64 // 0 is not known
	prompt, cached int     // prompt is 0 where both are not known
	replica        string
}

// conversation is one of them.
type conversation struct {
	at       time.Time
	affinity result.Affinity
	turns    []turn
}

// conversations keeps the latest conversations, in the order of time.
type conversations struct {
	byAffinity map[result.Affinity][]conversation
}

// observe adds the results of a run, if they are a conversation. Of one that failed the
// turns before the failure count.
func (c *conversations) observe(results []*result.Result, now time.Time) {
	v := conversation{at: now}
	for _, r := range results {
		if r.Turn == nil || r.Outcome != result.Success {
			break
		}
		t := turn{replica: r.Turn.Replica}
		if timed(r) {
			t.ttft = r.Timing.TTFT.Seconds()
		}
		if n := r.Tokens; n.Prompt > 0 && n.Cached >= 0 && n.Cached <= n.Prompt {
			t.prompt, t.cached = n.Prompt, n.Cached
		}
		v.affinity, v.turns = r.Turn.Affinity, append(v.turns, t)
	}
	if len(v.turns) == 0 {
		return
	}
	if c.byAffinity == nil {
		c.byAffinity = map[result.Affinity][]conversation{}
	}
	c.byAffinity[v.affinity] = stats.AppendLatest(c.byAffinity[v.affinity], v, maxConversations)
}

// turns returns what the conversations show, by affinity and turn.
func (c *conversations) turns(now time.Time) []Turn {
	var turns []Turn
	for _, affinity := range result.Affinities() {
		all := stats.DropOld(c.byAffinity[affinity], func(v conversation) bool { return now.Sub(v.at) >= pairReach })
		if len(all) > 0 {
			c.byAffinity[affinity] = all
		} else {
			delete(c.byAffinity, affinity)
		}
		for number := 1; ; number++ {
			t, ok := turnOf(all, number)
			if !ok {
				break
			}
			t.Affinity = affinity
			turns = append(turns, t)
		}
	}
	if c.reportsNoHits() && contradicts(turns) {
		for i := range turns {
			turns[i].HitRatio = nil
		}
	}
	return turns
}

// turnOf returns what conversations show of one of their turns; false where too few
// had it.
func turnOf(all []conversation, number int) (Turn, bool) {
	var ttft []float64
	n, prompt, cached, counted, named, same := 0, 0, 0, 0, 0, 0
	for _, v := range all {
		if len(v.turns) < number {
			continue
		}
		n++
		t := v.turns[number-1]
		if t.ttft > 0 {
			ttft = append(ttft, t.ttft)
		}
		if t.prompt > 0 {
			counted++
			prompt, cached = prompt+t.prompt, cached+t.cached
		}
		if number > 1 && t.replica != "" && v.turns[number-2].replica != "" {
			named++
			if t.replica == v.turns[number-2].replica {
				same++
			}
		}
	}
	out := Turn{Number: number}
	if counted >= minPairs {
		out.HitRatio = new(float64(cached) / float64(prompt))
	}
	if len(ttft) >= minPairs {
		slices.Sort(ttft)
		out.TTFT = new(stats.Median(ttft))
	}
	if named >= minPairs {
		out.SameReplica = new(float64(same) / float64(named))
	}
	return out, n >= minPairs
}

// reportsNoHits reports whether no reply reported a cached token after a first turn.
func (c *conversations) reportsNoHits() bool {
	for _, all := range c.byAffinity {
		for _, v := range all {
			if slices.ContainsFunc(v.turns[1:], func(t turn) bool { return t.cached > 0 }) {
				return false
			}
		}
	}
	return true
}

// contradicts reports whether some turn is faster than the first one by more than
// anything but a cache explains, although its prompt is longer.
func contradicts(all []Turn) bool {
	var first *float64
	for _, t := range all {
		switch {
		case t.Number == 1:
			first = t.TTFT
		case first != nil && t.TTFT != nil && *t.TTFT < (1-cacheBenefit)**first:
			return true
		}
	}
	return false
}

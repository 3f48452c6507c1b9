package load

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// maxConversations is how many of the latest conversations of each affinity count, as old and as few as pairs may be.
const maxConversations = 60

// Turn is what the latest conversations of one affinity show of one of their turns.
type Turn struct {
	Affinity result.Affinity `json:"affinity"`
	// Number counts the turns from 1.
	Number int `json:"turn"`
	// HitRatio is the share of the prompt tokens that came from the prefix cache, as the replies report; nil is
	// not known, as are ratios of 0 that TTFT contradicts.
	HitRatio *float64 `json:"prefix_cache_hit_ratio,omitempty"`
	TTFT     *float64 `json:"ttft_seconds,omitempty"` // the median in seconds; nil is not known
	// SameReplica is the share of the turns that the replica of the turn before
	// answered; nil of the first turn, and where replies do not name their replica.
	SameReplica *float64 `json:"same_replica_ratio,omitempty"`
}

type turn struct {
	ttft           float64 // 0 is not known
	prompt, cached int     // prompt is 0 where both are not known
	replica        string
}

type conversation struct {
	at       time.Time
	affinity result.Affinity
	turns    []turn
}

// conversations keeps the latest conversations of each affinity, in the order of time.
type conversations map[result.Affinity][]conversation

// observe adds the results of a run, if they are a conversation. Of one that failed the turns before the failure count.
func (c conversations) observe(results []*result.Result, now time.Time) {
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
	c[v.affinity] = stats.AppendLatest(c[v.affinity], v, maxConversations)
}

// turns returns what the conversations show, by affinity and turn.
func (c conversations) turns(now time.Time) []Turn {
	var turns []Turn
	for _, affinity := range result.Affinities() {
		all := stats.DropOld(c[affinity], func(v conversation) bool { return now.Sub(v.at) >= pairReach })
		if len(all) > 0 {
			c[affinity] = all
		} else {
			delete(c, affinity)
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

// turnOf returns what conversations show of one of their turns; false where too few had it.
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
	out.TTFT = stats.MedianOf(ttft, minPairs)
	if named >= minPairs {
		out.SameReplica = new(float64(same) / float64(named))
	}
	return out, n >= minPairs
}

// reportsNoHits reports whether no reply reported a cached token after a first turn.
func (c conversations) reportsNoHits() bool {
	for _, all := range c {
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

const (
	// maxPairs is how many of the latest pairs, and of warm replies, count, and pairReach how old they may be.
	maxPairs  = 60
	pairReach = 24 * time.Hour
	// minPairs is the fewest pairs whose least and greatest difference bound the
	// median with 95 % confidence: of 6, all lie on one side with 2 × 1/64.
	minPairs = 6
	// templateTokens is how many tokens of a cold prompt may be cached: the server's own template before it, up
	// to the end of a block of the cache.
	templateTokens = 64
	// cacheBenefit is the least benefit, as a share of the first half's TTFT, that only a cache explains: an open
	// connection, a clock that has sped up and a page in memory make the second half a little faster too.
	cacheBenefit = 0.25
)

// pair is the TTFT of the cold half of a pair, and by how much the warm half had its first token earlier, in seconds.
type pair struct {
	at            time.Time
	cold, benefit float64
}

type pairs struct{ all []pair }

// observe adds the results of a run, if they are a pair of which both halves were measured.
func (p *pairs) observe(results []*result.Result, now time.Time) {
	if len(results) != 2 {
		return
	}
	first, second := results[0], results[1]
	isPair := first.Prefix == string(config.PrefixCold) && second.Prefix == string(config.PrefixWarm) && first.Turn == nil
	if !isPair || first.Concurrency > 0 || second.Concurrency > 0 || !timed(first) || !timed(second) {
		return
	}
	p.all = stats.AppendLatest(p.all, pair{now, first.Timing.TTFT.Seconds(), (first.Timing.TTFT - second.Timing.TTFT).Seconds()}, maxPairs)
}

// allowNoHits reports whether the pairs allow that nothing came from a cache: the
// benefit, given, is known and small, or there are no pairs at all.
func (p *pairs) allowNoHits(benefit *workload.Interval) bool {
	if len(p.all) == 0 {
		return true
	}
	cold := sorted(p.all, func(v pair) float64 { return v.cold })
	return benefit != nil && benefit.Lower < cacheBenefit*stats.Median(cold)
}

// benefit returns the median of the differences.
func (p *pairs) benefit(now time.Time) *workload.Interval {
	p.all = stats.DropOld(p.all, func(v pair) bool { return now.Sub(v.at) >= pairReach })
	return median(p.all, func(v pair) float64 { return v.benefit })
}

// median returns that of values of pairs; nil of too few. Its bounds are two of them: they assume that pairs are
// independent, and nothing of how the values spread.
func median[T any](all []T, value func(T) float64) *workload.Interval {
	if len(all) < minPairs {
		return nil
	}
	values := sorted(all, value)
	lower, upper := stats.RankBounds(len(values), 0.5, 0.025)
	return &workload.Interval{Value: stats.Median(values), Lower: values[lower-1], Upper: values[upper-1]}
}

func sorted[T any](all []T, value func(T) float64) []float64 {
	values := stats.Map(all, value)
	slices.Sort(values)
	return values
}

type reply struct {
	at             time.Time
	prompt, cached int
}

// cache keeps what replies report of the prefix cache.
type cache struct {
	warm         []reply // the latest, in the order of time
	coldCached   uint64
	coldReported bool
}

// observe adds a result whose reply reports the cache. Requests of a burst compete for it, and say nothing of a probe.
func (c *cache) observe(r *result.Result, now time.Time) {
	n := r.Tokens
	if n.Cached < 0 || n.Prompt <= 0 || n.Cached > n.Prompt {
		return
	}
	if cold(r) {
		c.coldReported = true
		if n.Cached > templateTokens {
			c.coldCached++
		}
	}
	// What was not made to length may be asked for the first time.
	if r.Prefix == string(config.PrefixWarm) && r.Length > 0 && r.Outcome == result.Success && r.Concurrency == 0 {
		c.warm = stats.AppendLatest(c.warm, reply{now, n.Prompt, n.Cached}, maxPairs)
	}
}

// reportsNoHits reports whether replies report the cache, and all that nothing came from it.
func (c *cache) reportsNoHits() bool {
	hit := slices.ContainsFunc(c.warm, func(v reply) bool { return v.cached > 0 })
	return len(c.warm) > 0 && !hit && c.coldCached == 0
}

// hitRatio returns the share of the warm prompts that came from the cache.
func (c *cache) hitRatio(now time.Time) *float64 {
	c.warm = stats.DropOld(c.warm, func(v reply) bool { return now.Sub(v.at) >= pairReach })
	prompt, cached := 0, 0
	for _, v := range c.warm {
		prompt += v.prompt
		cached += v.cached
	}
	if prompt == 0 {
		return nil
	}
	return new(float64(cached) / float64(prompt))
}

// cold reports whether a prompt began as no other did. One that was not made to length is asked again and again.
func cold(r *result.Result) bool { return r.Prefix == string(config.PrefixCold) && r.Length > 0 }

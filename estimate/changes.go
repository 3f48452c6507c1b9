package estimate

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Indexes of Sources: first those whose values are either equal or not.
const (
	indexAnswer, indexFingerprint, indexModel, indexLogprob = 0, 1, 2, 3

	numNamed = 3
)

const (
	// maxPrompts bounds the prompts whose answers are watched: the first ones.
	maxPrompts = 64
	// maxKnown bounds the values that are known of a prompt.
	maxKnown = 8
)

// rule says when another value is a change.
type rule struct {
	// learn is how many values are looked at to know what is usual.
	learn int
	// steady is how many different ones there may be among them. With more,
	// nothing is usual: it goes on learning.
	steady int
	// patience is how many values in a row must be none of the known ones.
	patience int
}

// answerRule is for answers at temperature 0. They still differ now and then on a
// server that computes requests in batches: where one in ten does, each time in
// another way, five in a row do once in 100,000 answers.
func answerRule() rule { return rule{learn: 10, steady: 5, patience: 5} }

// nameRule is for names of the model and of the system. They do not differ by
// chance, but a balancer may have several servers behind it, and take turns.
func nameRule() rule { return rule{learn: 20, steady: maxKnown, patience: 3} }

// changes watches one source.
type changes struct {
	count   uint64
	last    time.Time
	seed    maphash.Seed
	prompts map[uint64]*usual // nil until there is something to watch
}

// observe adds what came of a prompt, "" if nothing did.
func (c *changes) observe(prompt, value string, r rule, now time.Time) {
	if value == "" {
		return
	}
	if c.prompts == nil {
		c.seed, c.prompts = maphash.MakeSeed(), make(map[uint64]*usual)
	}
	key := maphash.String(c.seed, prompt)
	u, ok := c.prompts[key]
	if !ok {
		if len(c.prompts) == maxPrompts {
			return
		}
		u = &usual{}
		c.prompts[key] = u
	}
	if u.observe(maphash.String(c.seed, value), r) {
		c.count++
		c.last = now
		// What changed one answer changes others: all are learnt anew, and one
		// change counts once.
		clear(c.prompts)
	}
}

// usual is which values are usual.
type usual struct {
	// values are the latest ones while it learns, else the known ones, those that
	// were seen last at the end, followed by the strange ones since.
	values []uint64
	known  int // how many of values are known; 0 while it learns
}

// observe adds a value and tells whether that makes a change.
func (u *usual) observe(v uint64, r rule) (changed bool) {
	if u.known == 0 {
		u.learn(v, r)
		return false
	}
	i := slices.Index(u.values[:u.known], v)
	if i < 0 {
		u.values = append(u.values, v)
		return len(u.values)-u.known == r.patience
	}
	// The strange ones before it came beside the known ones: they are of them.
	u.values = distinct(append(slices.Delete(u.values, i, i+1), v))
	if n := len(u.values); n > maxKnown {
		u.values = slices.Delete(u.values, 0, n-maxKnown)
	}
	u.known = len(u.values)
	return false
}

// learn adds a value to the latest ones.
func (u *usual) learn(v uint64, r rule) {
	u.values = stats.AppendLatest(u.values, v, r.learn)
	if len(u.values) < r.learn {
		return
	}
	if found := distinct(slices.Clone(u.values)); len(found) <= r.steady {
		u.values, u.known = found, len(found)
	}
}

// distinct removes what is in the list again later on.
func distinct(all []uint64) []uint64 {
	kept := all[:0]
	for i, v := range all {
		if !slices.Contains(all[i+1:], v) {
			kept = append(kept, v)
		}
	}
	return kept
}

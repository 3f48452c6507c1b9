package drift

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// The test for a change of the model by the first tokens of answers, of modules
// with track_model. Its constants come from simulation (BenchmarkFirstTokens).
const (
	// scoredWindow is how many of the latest answers are compared with those before
	// them where they have log-probabilities: a day's at the default interval.
	scoredWindow = 96
	// referenceWindows is with how many windows of answers before it a window is
	// compared: a baseline that trails, so that a drift over weeks is no change.
	referenceWindows = 4
	testsPerWindow   = 4 // how often the test is made while a window of answers comes
	// permutations is how many random splits of the same answers are tried. None may be as far apart as the
	// window and its reference: by chance that is so in one test of 10,000.
	permutations    = 9999
	minPermutations = 100 // how many are tried in any case, for what is chance
	// minLogprobShift and minVariation are the least changes that count, in nats and
	// as a share of first tokens; what a server's load changes is less.
	minLogprobShift = 0.01
	minVariation    = 0.01
	// columnShare is the share of the answers to a prompt in which a token must be
	// among the likeliest to be compared, and maxColumns bounds those tokens.
	columnShare = 0.1
	maxColumns  = 16
	keptTokens  = 5 // how many of the likeliest tokens of an answer are kept
)

// firstToken is the first token of one answer, in the form in which it is saved. Texts are kept as hashes.
type firstToken struct {
	Prompt, Text uint32
	// Tokens are the likeliest first tokens, the likeliest first, and Logprobs their
	// log-probabilities; the first N are set.
	Tokens   [keptTokens]uint32
	Logprobs [keptTokens]float32
	N        uint8
}

func newFirstToken(r *result.Result) firstToken {
	f := firstToken{Prompt: hash32(r.Answer.Prompt), Text: hash32(r.First.Text)}
	for _, t := range r.First.Top {
		if f.N == keptTokens || math.IsNaN(t.Logprob) || math.IsInf(t.Logprob, 0) {
			break
		}
		f.Tokens[f.N], f.Logprobs[f.N] = hash32(t.Token), float32(t.Logprob)
		f.N++
	}
	return f
}

func hash32(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum32()
}

// logprob returns the log-probability of a token; of one that is not among the
// likeliest that of the last of these, which is the most it can be.
func (f *firstToken) logprob(token uint32) float64 {
	i := slices.Index(f.Tokens[:f.N], token)
	if i < 0 {
		i = int(f.N) - 1
	}
	return float64(f.Logprobs[i])
}

// Shift is by how much the first tokens of the latest answers differ from those before
// them, beyond what chance explains; nil is not known.
type Shift struct {
	// Logprobs is of log-probabilities, in nats, as a mean over prompts and tokens.
	Logprobs *float64 `json:"first_token_logprob_shift,omitempty"`
	// Variation is of the tokens, where replies have no log-probabilities: the share of the answers that would
	// have to be others, the total variation, as a mean over prompts.
	Variation *float64 `json:"first_token_variation_ratio,omitempty"`
}

type firstTokens struct {
	window  int          // how many of the latest answers without log-probabilities are compared with those before them
	samples []firstToken // the latest, in order of time
	fresh   int          // how many came since the latest test
	shift   Shift        // by the latest test
	counts  [2]uint64    // of changes: by tokens, by log-probabilities
	last    [2]time.Time
	seen    [2]bool
}

// observe adds a result, if it has a first token that is watched.
func (f *firstTokens) observe(r *result.Result, now time.Time) {
	if r.Outcome != result.Success || r.First == nil {
		return
	}
	s := newFirstToken(r)
	f.seen[kind(s.N > 0)] = true
	window := f.window
	if s.N > 0 {
		window = scoredWindow
	}
	testEvery := window / testsPerWindow
	if most := window * (1 + referenceWindows); len(f.samples) >= most {
		f.samples = slices.Delete(f.samples, 0, len(f.samples)-most+testEvery)
	}
	f.samples = append(f.samples, s)
	if f.fresh++; f.fresh < testEvery || len(f.samples) < 2*window {
		return
	}
	f.fresh = 0
	split := len(f.samples) - window
	shift, changed := compare(f.samples[:split], f.samples[split:])
	f.shift = shift
	if changed {
		k := kind(shift.Logprobs != nil)
		f.counts[k]++
		f.last[k] = now
		// The window may be of both models: the new one is learnt from here on.
		f.samples = nil
	}
}

func (f *firstTokens) findings(to *Finding) {
	to.Shift = f.shift
	for k, source := range [2]int{indexFirstToken, indexFirstTokenLogprob} {
		if f.seen[k] {
			to.watch(source, f.counts[k], f.last[k])
		}
	}
}

// kind is the index of a kind of comparison in the fields of firstTokens.
func kind(scored bool) int { return int(workload.Number(scored)) }

// compare tests whether the answers of the window could be some of all: a permutation test within each prompt, of the
// mean log-probabilities of the likeliest tokens (arXiv 2512.03816) or, without them, of the total variation of the
// tokens (arXiv 2602.11083). Nothing is known where no prompt has answers on both sides.
func compare(reference, window []firstToken) (s Shift, changed bool) {
	scored := mostScored(reference) && mostScored(window)
	strata := newStrata(reference, window, scored)
	if len(strata) == 0 {
		return Shift{}, false
	}
	observed, apart := distance(strata)
	rng := rand.New(rand.NewPCG(uint64(len(reference)), uint64(len(window))))
	chance, tried, reached := 0.0, 0, false
	for tried < minPermutations || tried < permutations && !reached {
		for _, st := range strata {
			st.shuffle(rng)
		}
		d, a := distance(strata)
		chance += a
		tried++
		reached = reached || d >= observed-1e-12
	}
	value := max(0, apart-chance/float64(tried))
	if scored {
		return Shift{Logprobs: &value}, !reached && value >= max(minLogprobShift, scatter(strata))
	}
	return Shift{Variation: &value}, !reached && value >= minVariation
}

func mostScored(all []firstToken) bool {
	return 2*stats.Count(all, func(t firstToken) bool { return t.N > 0 }) > len(all)
}

// stratum is the answers to one prompt as rows of numbers: the log-probability of
// each token, or 1 for the token that it was and 0 for the others.
type stratum struct {
	columns int
	rows    []float64 // columns for each answer
	order   []int     // of the answers: the first window of them are compared with the others
	window  int
	totals  []float64 // of the columns
	weight  float64   // of a column in the distance
	equal   bool      // all rows are: whatever the order, nothing is apart
}

// newStrata returns the strata of the prompts that have answers on both sides.
func newStrata(reference, window []firstToken, scored bool) []*stratum {
	prompts := map[uint32][2][]firstToken{}
	var order []uint32
	for side, all := range [2][]firstToken{reference, window} {
		for _, s := range all {
			if scored && s.N == 0 {
				continue
			}
			p, ok := prompts[s.Prompt]
			if !ok {
				order = append(order, s.Prompt)
			}
			p[side] = append(p[side], s)
			prompts[s.Prompt] = p
		}
	}
	var strata []*stratum
	for _, id := range order {
		if p := prompts[id]; len(p[0]) > 0 && len(p[1]) > 0 {
			strata = append(strata, newStratum(p[0], p[1], scored))
		}
	}
	return strata
}

func newStratum(reference, window []firstToken, scored bool) *stratum {
	all := slices.Concat(window, reference)
	tokens := columnsOf(all, scored)
	st := &stratum{columns: len(tokens), window: len(window), weight: 0.5, totals: make([]float64, len(tokens))}
	if scored {
		st.weight = 1 / float64(max(1, len(tokens)))
	}
	st.equal = !scored && len(tokens) == 1
	for i := range all {
		st.order = append(st.order, i)
		for c, token := range tokens {
			v := 0.0
			if scored {
				v = all[i].logprob(token)
			} else if all[i].Text == token {
				v = 1
			}
			st.rows = append(st.rows, v)
			st.totals[c] += v
		}
	}
	return st
}

// columnsOf returns the tokens that are compared: all that came first, or those that
// are often among the likeliest, whichever side they are of.
func columnsOf(all []firstToken, scored bool) []uint32 {
	count := map[uint32]int{}
	var order []uint32
	add := func(token uint32) {
		if count[token]++; count[token] == 1 {
			order = append(order, token)
		}
	}
	for i := range all {
		if !scored {
			add(all[i].Text)
			continue
		}
		for _, t := range all[i].Tokens[:all[i].N] {
			add(t)
		}
	}
	if !scored {
		return order
	}
	order = slices.DeleteFunc(order, func(t uint32) bool { return float64(count[t]) < columnShare*float64(len(all)) })
	slices.SortStableFunc(order, func(a, b uint32) int { return count[b] - count[a] })
	return order[:min(len(order), maxColumns)]
}

// shuffle draws which answers are taken for those of the window.
func (st *stratum) shuffle(rng *rand.Rand) {
	if st.equal {
		return
	}
	for i := range st.window {
		j := i + rng.IntN(len(st.order)-i)
		st.order[i], st.order[j] = st.order[j], st.order[i]
	}
}

// distance returns how far the means of the columns are apart: the sum of the squares, in which a prompt that has
// changed stands out against the others' noise, and the sum itself.
func (st *stratum) distance() (squares, apart float64) {
	if st.equal {
		return 0, 0
	}
	n, w := float64(len(st.order)), float64(st.window)
	for c := range st.columns {
		sum := 0.0
		for _, i := range st.order[:st.window] {
			sum += st.rows[i*st.columns+c]
		}
		d := sum/w - (st.totals[c]-sum)/(n-w)
		squares += d * d
		apart += math.Abs(d)
	}
	return squares * st.weight, apart * st.weight
}

// distance returns the means of the strata.
func distance(strata []*stratum) (squares, apart float64) {
	for _, st := range strata {
		s, a := st.distance()
		squares += s / float64(len(strata))
		apart += a / float64(len(strata))
	}
	return squares, apart
}

// scatter returns the mean absolute deviation of a column from the mean of its side, over columns and strata.
// What the load of a server changes moves a mean by less.
func scatter(strata []*stratum) float64 {
	sum := 0.0
	for _, st := range strata {
		for c := range st.columns {
			off := st.deviations(c, 0, st.window) + st.deviations(c, st.window, len(st.order))
			sum += off / float64(len(st.order)*st.columns)
		}
	}
	return sum / float64(len(strata))
}

// deviations returns the sum of the absolute deviations of the rows from..to from their
// mean. Rows are in their original order, the window first.
func (st *stratum) deviations(column, from, to int) float64 {
	mean, sum := 0.0, 0.0
	for i := from; i < to; i++ {
		mean += st.rows[i*st.columns+column] / float64(to-from)
	}
	for i := from; i < to; i++ {
		sum += math.Abs(st.rows[i*st.columns+column] - mean)
	}
	return sum
}

// savedFirstTokens is the JSON of firstTokens. Counters begin again, as others do.
type savedFirstTokens struct {
	// Samples are the answers one after the other, as encoding/binary has them: some 50 bytes each.
	Samples []byte       `json:"samples"`
	Fresh   int          `json:"fresh"`
	Changed [2]time.Time `json:"changed"`
}

func (e *Estimate) saveFirst() any {
	f := e.first
	if f == nil || len(f.samples) == 0 {
		return nil
	}
	samples, _ := binary.Append(nil, binary.LittleEndian, f.samples) // never fails: their size is fixed
	return savedFirstTokens{samples, f.fresh, f.last}
}

func (e *Estimate) restoreFirst(j *savedFirstTokens) error {
	size := binary.Size(firstToken{})
	n := len(j.Samples) / size
	if n*size != len(j.Samples) || n > e.window*(1+referenceWindows) || j.Fresh < 0 || j.Fresh > e.window/testsPerWindow+n {
		return errors.New("not as many answers as can be")
	}
	samples := make([]firstToken, n)
	if _, err := binary.Decode(j.Samples, binary.LittleEndian, samples); err != nil {
		return fmt.Errorf("decode answers: %w", err)
	}
	next := &firstTokens{window: e.window, samples: samples, fresh: j.Fresh, last: j.Changed}
	for i := range samples {
		if !samples[i].isSane() {
			return errors.New("log-probabilities that no answer has")
		}
		next.seen[kind(samples[i].N > 0)] = true
	}
	e.first = next
	return nil
}

// isSane reports whether there may be such an answer.
func (f *firstToken) isSane() bool {
	odd := func(p float32) bool { return math.IsNaN(float64(p)) || math.Abs(float64(p)) > maxSavedScore*10 }
	return f.N <= keptTokens && !slices.ContainsFunc(f.Logprobs[:], odd)
}

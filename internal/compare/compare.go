// Package compare decides whether a candidate is worse than a baseline, by sequential tests on pairs of probes.
package compare

import (
	"math"
	"slices"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Quantity is what is compared. The set is closed: it is in the JSON of reports.
type Quantity string

const (
	// TTFT is the time to the first token.
	TTFT Quantity = "ttft"
	// TPOT is the time per output token.
	TPOT Quantity = "tpot"
	// Duration is the time of the request, of endpoints that generate nothing.
	Duration Quantity = "duration"
	// Failures is the share of requests without an answer.
	Failures Quantity = "failures"
	// WrongAnswers is the share of the answers that were checked and are not right.
	WrongAnswers Quantity = "wrong_answers"
)

// Quantities lists the closed set.
func Quantities() []Quantity { return []Quantity{TTFT, TPOT, Duration, Failures, WrongAnswers} }

// IsLatency reports whether the quantity is a duration, whose change is relative; that of a share is a difference.
func (q Quantity) IsLatency() bool { return q == TTFT || q == TPOT || q == Duration }

// inUse is how many quantities one comparison has at most: Duration is there only without TTFT and TPOT. A regression
// of each is found with the alpha of all divided by it (Bonferroni), so that one that is none is found in any of them
// with a probability of at most alpha.
const inUse = 4

// Options say what counts as a regression.
type Options struct {
	// Alpha bounds the probability of a regression that is none, and that of a pass with a regression.
	Alpha float64
	// Latency is the relative change of TTFT or Duration, TPOT that of TPOT, Failures and WrongAnswers the difference
	// of shares that count as a regression: more than that is one, as 0.1 for 10 %.
	Latency, TPOT, Failures, WrongAnswers float64
}

// Defaults returns the options of the command line. The margins are as small as equal servers pass within a hundred to
// two hundred pairs with: TTFT is the noisiest, and one share of 5 % takes 80 pairs without a failure.
func Defaults() Options {
	return Options{Alpha: 0.05, Latency: 0.15, TPOT: 0.05, Failures: 0.05, WrongAnswers: 0.1}
}

// margin returns the margin of a quantity, as the samples have it.
func (o Options) margin(q Quantity) float64 {
	switch q {
	case TPOT:
		return math.Log1p(o.TPOT)
	case Failures:
		return o.Failures
	case WrongAnswers:
		return o.WrongAnswers
	}
	return math.Log1p(o.Latency)
}

// Verdict is what a comparison, or one quantity of it, came to. The set is closed.
type Verdict string

const (
	// Pass is no regression: the change is below the margin.
	Pass Verdict = "pass"
	// Regression is a change above the margin.
	Regression Verdict = "regression"
	// Undecided is neither, yet.
	Undecided Verdict = "undecided"
	// NotMeasured is a quantity that the replies do not show, or the module does not check.
	NotMeasured Verdict = "not_measured"
)

// Comparison compares pairs of runs, and may be asked for its verdict after each. It is not safe for concurrent use.
type Comparison struct {
	pairs int
	tests []*test
}

// New returns a comparison without pairs. All numbers of the options are more than 0, and those of shares less than 1.
func New(o Options) *Comparison {
	return &Comparison{tests: stats.Map(Quantities(), func(q Quantity) *test { return newTest(q, o) })}
}

// Add adds a pair of runs.
func (c *Comparison) Add(baseline, candidate Figures) {
	c.pairs++
	for _, t := range c.tests {
		t.add(baseline, candidate)
	}
}

// Pairs is how many pairs were added.
func (c *Comparison) Pairs() int { return c.pairs }

// Verdict returns Regression if any quantity has one, and Pass if each that is measured has none, a latency among them.
func (c *Comparison) Verdict() Verdict {
	verdict, latencies := Pass, 0
	for _, t := range c.tests {
		switch v := t.verdict(); {
		case v == Regression:
			return Regression
		case v == Undecided:
			verdict = Undecided
		case v == Pass && t.quantity.IsLatency():
			latencies++
		}
	}
	if latencies == 0 {
		return Undecided
	}
	return verdict
}

// hopeless is how many pairs without a latency of both sides there may be at first.
const hopeless = 20

// Hopeless reports whether no pair has a latency of both sides although there were many: there will be no pass.
func (c *Comparison) Hopeless() bool {
	return c.pairs >= hopeless && !slices.ContainsFunc(c.tests, func(t *test) bool { return t.quantity.IsLatency() && len(t.samples) > 0 })
}

// Findings returns what is known of each quantity, in the order of Quantities.
func (c *Comparison) Findings() []Finding { return stats.Map(c.tests, (*test).finding) }

// Amount is a latency in seconds, a share or a change; NaN is not known, and left out of JSON.
type Amount float64

// IsZero reports whether the amount is not known.
func (a Amount) IsZero() bool { return math.IsNaN(float64(a)) }

// Finding is what is known of one quantity.
type Finding struct {
	Quantity Quantity `json:"quantity"`
	Verdict  Verdict  `json:"verdict"`
	// Pairs is how many pairs have the quantity on both sides.
	Pairs int `json:"pairs"`
	// Baseline and Candidate are the medians of a latency, over the runs that have it, or shares.
	Baseline  Amount `json:"baseline,omitzero"`
	Candidate Amount `json:"candidate,omitzero"`
	// Change is that of the candidate, relative for latencies: the median over the pairs, or the mean difference of shares.
	Change Amount `json:"change,omitzero"`
	// Lower and Upper bound the change whenever one looks: it is lower or higher with a
	// probability of at most alpha/4 and of alpha. They are not known where the pairs are too few.
	Lower Amount `json:"change_lower,omitzero"`
	Upper Amount `json:"change_upper,omitzero"`
	// Margin is the change above which the candidate has a regression.
	Margin Amount `json:"margin"`
}

type test struct {
	quantity            Quantity
	margin              float64
	forBlock, forPass   float64 // capital at which the hypothesis falls
	worse, notWorse     score
	samples             []sample
	scale               float64 // of the first samples
	above, below        *capital
	blocked, passed     bool
	baseline, candidate []float64
}

func newTest(q Quantity, o Options) *test {
	t := &test{
		quantity: q, margin: o.margin(q), forBlock: inUse / o.Alpha, forPass: 1 / o.Alpha,
		worse: meanAbove, notWorse: meanBelow, above: newCapital(), below: newCapital(),
	}
	if q.IsLatency() {
		t.worse, t.notWorse = centreAbove, centreBelow
	}
	return t
}

func (t *test) add(baseline, candidate Figures) {
	b, hasBaseline := baseline.of(t.quantity)
	c, hasCandidate := candidate.of(t.quantity)
	if hasBaseline {
		t.baseline = append(t.baseline, b)
	}
	if hasCandidate {
		t.candidate = append(t.candidate, c)
	}
	if !hasBaseline || !hasCandidate {
		return
	}
	s := sample{value: c - b}
	if t.quantity.IsLatency() {
		s = sample{math.Log(c / b), t.scale}
	}
	t.samples = append(t.samples, s)
	if len(t.samples) <= maxScaled {
		t.scale = deviation(t.samples)
	}
	t.blocked = t.above.play(t.worse(s, t.margin)) >= t.forBlock || t.blocked
	t.passed = t.below.play(t.notWorse(s, t.margin)) >= t.forPass || t.passed
}

func (t *test) verdict() Verdict {
	switch {
	case t.blocked:
		return Regression
	case t.passed:
		return Pass
	case len(t.baseline)+len(t.candidate) == 0:
		return NotMeasured
	}
	return Undecided
}

func (t *test) finding() Finding {
	values := stats.Map(t.samples, func(s sample) float64 { return s.value })
	lowest, highest := t.limits()
	change, lower, upper, margin := t.typical(values), bound(t.samples, t.worse, lowest, highest, 1/t.forBlock),
		bound(t.samples, t.notWorse, highest, lowest, 1/t.forPass), t.margin
	if t.quantity.IsLatency() {
		change, lower, upper, margin = math.Expm1(change), math.Expm1(lower), math.Expm1(upper), math.Expm1(margin)
	}
	return Finding{
		Quantity: t.quantity, Verdict: t.verdict(), Pairs: len(t.samples),
		Baseline: Amount(t.typical(t.baseline)), Candidate: Amount(t.typical(t.candidate)),
		Change: Amount(change), Lower: Amount(lower), Upper: Amount(upper), Margin: Amount(margin),
	}
}

// typical returns the median of latencies or their changes, or the mean of shares or their differences; NaN of nothing.
func (t *test) typical(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	if t.quantity.IsLatency() {
		return stats.Median(slices.Sorted(slices.Values(values)))
	}
	return stats.Sum(values, func(v float64) float64 { return v }) / float64(len(values))
}

// limits returns between what bounds are looked for: of latencies a factor of 1000.
func (t *test) limits() (lowest, highest float64) {
	if t.quantity.IsLatency() {
		return -math.Log(1000), math.Log(1000)
	}
	const most = 0.9999 // at 1 the score is not defined
	return -most, most
}

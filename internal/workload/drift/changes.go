package drift

import (
	"errors"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Indexes of Sources: first those whose values are either equal or not.
const (
	indexAnswer, indexFingerprint, indexModel, indexLogprob, indexFirstToken, indexFirstTokenLogprob, indexEmbedding, indexRerank = 0, 1, 2, 3, 4, 5, 6, 7

	numNamed, numSources = 3, 8
)

const (
	// maxPrompts bounds the prompts whose answers are watched: the first ones.
	maxPrompts = 64
	// maxKnown bounds the values that are known of a prompt.
	maxKnown = 8
)

// rule says when another value is a change.
type rule struct {
	learn int // how many values are looked at to know what is usual
	// steady is how many different ones there may be among them. With more, nothing is usual: it goes on learning.
	steady   int
	patience int // how many values in a row must be none of the known ones
}

// answerRule is for answers at temperature 0, which differ now and then where a server computes in batches:
// where one in ten does, each time in another way, five in a row do once in 100,000 answers.
func answerRule() rule { return rule{learn: 10, steady: 5, patience: 5} }

// nameRule is for names of the model and of the system. They do not differ by
// chance, but a balancer may have several servers behind it, and take turns.
func nameRule() rule { return rule{learn: 20, steady: maxKnown, patience: 3} }

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
		// What changed one answer changes others: all are learnt again, and one change counts once.
		clear(c.prompts)
	}
}

type usual struct {
	// values are the latest ones while it learns, else the known ones, those that
	// were seen last at the end, followed by the strange ones since.
	values []uint64
	known  int // how many of values are known; 0 while it learns
}

// observe adds a value and reports whether that makes a change.
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

// The detector of lasting shifts. By simulation (BenchmarkShift) a shift of 0.02 nats per token
// is found within 20 scores at noise of up to 0.005 (standard deviation), with fewer than one
// false shift in 20 months of a score every minute, even where neighbours correlate by 0.5 or
// the noise has heavy tails. With more noise it takes longer, or finds none.
const (
	// minBaseline is how many scores it learns from before it judges any, and
	// maxBaseline how many it goes on to learn from while nothing shifts.
	minBaseline, maxBaseline = 60, 240
	// minScoreNoise is the least noise that is assumed. It makes shifts that are
	// smaller than this, as other batches bring them, none.
	minScoreNoise = 0.0025
	// clip is how far a single score can be off, in standard deviations: one outlier is no shift.
	clip = 4
	// slack is what is taken from each deviation before they are summed up, and threshold the sum that is a shift.
	slack, threshold = 1, 22
	calm             = 3 // the sum below which a score is taken for one of the baseline
)

type score struct {
	savedScore
	latest *float64
	count  uint64
	recent []float64 // the latest since it moved away from the usual one
}

type savedScore struct {
	shift
	Changed time.Time `json:"changed,omitzero"`
	Usual   *shift    `json:"usual,omitempty"` // before it moved, until it is back
	Since   time.Time `json:"since,omitzero"`  // when it moved away from Usual
}

const (
	// backScores is how many of the latest scores show that the usual score is back: by simulation their median is within
	// backNoise of it in 93 % of all cases then, and in 2 of 10,000 where it moved by 1.5 standard deviations.
	backScores = 20
	backNoise  = 0.5
)

// observe adds a result, if it has a score.
func (s *score) observe(r *result.Result, now time.Time) {
	if r.Kind == api.Scoring && r.Outcome != result.Success {
		s.latest = nil
	}
	mean := r.Logprob.Mean
	if r.Outcome != result.Success || r.Logprob.Tokens <= 0 || math.IsNaN(mean) || math.IsInf(mean, 0) {
		return
	}
	s.latest = &mean
	if s.isBack(mean, now) {
		s.shift = *s.Usual
		s.accept()
	}
	if s.shift.observe(mean) {
		s.count, s.Changed = s.count+1, now
		if s.Usual == nil {
			s.Usual, s.Since = &shift{Baseline: s.Baseline, mean: s.mean, noise: s.noise}, now
		}
		s.shift = shift{}
	}
}

// isBack adds a score, and reports whether the usual ones are back. After a week they are no longer usual.
func (s *score) isBack(mean float64, now time.Time) bool {
	if s.Usual != nil && now.Sub(s.Since) >= acceptedAfter {
		s.accept()
	}
	if s.Usual == nil {
		return false
	}
	s.recent = stats.AppendLatest(s.recent, mean, backScores)
	return len(s.recent) == backScores && math.Abs(stats.Median(slices.Sorted(slices.Values(s.recent)))-s.Usual.mean) <= backNoise*s.Usual.noise
}

// accept takes what the scores are now for the usual ones.
func (s *score) accept() { s.Usual, s.Since, s.recent = nil, time.Time{}, nil }

// change returns that the scores are others than usual; nil while they are not.
func (s *score) change() *Change {
	if s.Usual == nil {
		return nil
	}
	return &Change{Source: SourceLogprob, Since: s.Since}
}

// shift reports whether the mean of what it observes has moved: two cumulative sums
// (CUSUM), one for each direction, of the deviations from a baseline.
type shift struct {
	Baseline    []float64 `json:"baseline"` // sorted
	mean, noise float64   // of the baseline
	Up          float64   `json:"up"`
	Down        float64   `json:"down"`
}

// observe adds a value and reports whether the mean is another one. After that it must learn again.
func (s *shift) observe(v float64) (shifted bool) {
	if len(s.Baseline) < minBaseline {
		s.learn(v)
		return false
	}
	off := min(clip, max(-clip, (v-s.mean)/s.noise))
	s.Up = max(0, s.Up+off-slack)
	s.Down = max(0, s.Down-off-slack)
	most := max(s.Up, s.Down)
	if len(s.Baseline) < maxBaseline && most < calm {
		s.learn(v)
	}
	return most > threshold
}

func (s *shift) learn(v float64) {
	i, _ := slices.BinarySearch(s.Baseline, v)
	s.Baseline = slices.Insert(s.Baseline, i, v)
	if len(s.Baseline) >= minBaseline {
		s.judgeBy()
	}
}

// judgeBy computes the mean of the baseline, without the quarter at each end, and its noise, a little more than
// it seems, as few values give it badly.
func (s *shift) judgeBy() {
	n := len(s.Baseline)
	inner := s.Baseline[n/4 : n-n/4]
	sum := 0.0
	for _, b := range inner {
		sum += b
	}
	s.mean = sum / float64(len(inner))
	middle := stats.Median(s.Baseline)
	residuals := make([]float64, n)
	for k, b := range s.Baseline {
		residuals[k] = b - middle
	}
	s.noise = max(minScoreNoise, stats.Deviation(residuals, residuals)*(1+5/float64(n)))
}

func (s *score) save() any {
	if len(s.Baseline) == 0 && s.Usual == nil {
		return nil
	}
	return s.savedScore
}

func (s *score) restore(j *savedScore) error {
	if err := j.shift.restored(); err != nil {
		return err
	}
	if j.Usual != nil {
		if err := j.Usual.restored(); err != nil {
			return err
		}
		if len(j.Usual.Baseline) < minBaseline || j.Since.IsZero() {
			return errors.New("usual scores that no answers lead to")
		}
	}
	s.savedScore = *j
	return nil
}

// restored completes what was saved, or returns why it cannot be true.
func (s *shift) restored() error {
	sums := 0 <= s.Up && s.Up <= threshold && 0 <= s.Down && s.Down <= threshold
	if len(s.Baseline) > maxBaseline || !slices.IsSorted(s.Baseline) || !sums {
		return errors.New("a baseline that no scores lead to")
	}
	if slices.ContainsFunc(s.Baseline, func(v float64) bool { return math.Abs(v) > maxSavedScore }) {
		return errors.New("a score that no answer has")
	}
	if len(s.Baseline) >= minBaseline {
		s.judgeBy()
	}
	return nil
}

// maxSavedScore bounds the log-probabilities that can be true, in nats per token.
const maxSavedScore = 1000

package estimate

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// The detector of lasting shifts. Its constants come from simulation
// (BenchmarkShift): a shift of 0.02 nats per token is found within 20 scores at
// noise of up to 0.005 (standard deviation), with fewer than one false shift in 20
// months of a score every minute, even where the noise of neighbours correlates
// by 0.5 or has heavy tails. With more noise it takes longer, or finds none.
const (
	// minBaseline is how many scores it learns from before it judges any, and
	// maxBaseline how many it goes on to learn from while nothing shifts.
	minBaseline, maxBaseline = 60, 240
	// minScoreNoise is the least noise that is assumed. It makes shifts that are
	// smaller than this, as other batches bring them, none.
	minScoreNoise = 0.0025
	// clip is how far a single score can be off, in standard deviations: one
	// outlier is no shift.
	clip = 4
	// slack is what is taken from each deviation before they are summed up, and
	// threshold the sum that is a shift.
	slack, threshold = 1, 22
	// calm is the sum below which a score is taken for one of the baseline.
	calm = 3
)

// score watches the log-probability of the reference passage.
type score struct {
	latest *float64
	shift  shift
	count  uint64
	last   time.Time
}

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
	if s.shift.observe(mean) {
		s.count++
		s.last = now
		s.shift = shift{}
	}
}

// shift tells whether the mean of what it observes has moved: two cumulative sums
// (CUSUM), one for each direction, of the deviations from a baseline.
type shift struct {
	baseline    []float64 // sorted
	mean, noise float64   // of the baseline
	up, down    float64
}

// observe adds a value and tells whether the mean is another one. After that it
// must learn anew.
func (s *shift) observe(v float64) (shifted bool) {
	if len(s.baseline) < minBaseline {
		s.learn(v)
		return false
	}
	off := min(clip, max(-clip, (v-s.mean)/s.noise))
	s.up = max(0, s.up+off-slack)
	s.down = max(0, s.down-off-slack)
	most := max(s.up, s.down)
	if len(s.baseline) < maxBaseline && most < calm {
		s.learn(v)
	}
	return most > threshold
}

// learn adds a value to the baseline. Its mean leaves out the quarter at each end;
// its noise is taken for a little more than it seems, as few values tell it badly.
func (s *shift) learn(v float64) {
	i, _ := slices.BinarySearch(s.baseline, v)
	s.baseline = slices.Insert(s.baseline, i, v)
	n := len(s.baseline)
	if n < minBaseline {
		return
	}
	inner := s.baseline[n/4 : n-n/4]
	sum := 0.0
	for _, b := range inner {
		sum += b
	}
	s.mean = sum / float64(len(inner))
	middle := stats.Median(s.baseline)
	residuals := make([]float64, n)
	for k, b := range s.baseline {
		residuals[k] = b - middle
	}
	s.noise = max(minScoreNoise, stats.Deviation(residuals, residuals)*(1+5/float64(n)))
}

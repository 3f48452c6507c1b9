package loadtest

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

const (
	// overShare is the share of the requests that may be over an objective: the rest of the 99th percentile.
	overShare = 0.01
	// alpha is how often a verdict is wrong at most, and each of the two bounds of a quantile half as often.
	alpha = 0.05
)

// Measure returns what a level came to in its steady state: from when all of its load was there and every request that
// was sent until then has ended, or a third of its time is over, until no more were sent.
func Measure(rec *Recorded, o *series.Objectives, c Context) Level {
	l := Level{Level: rec.Level}
	w := steady(rec)
	if l.Seconds = w.overlap(w.from, w.to); l.Seconds == 0 {
		return l
	}
	var ttft, tpot []float64
	var came, input, output float64 // tokens in the window, and of the requests that were sent in it
	good := 0
	for i := range rec.Samples {
		s := &rec.Samples[i]
		l.InFlight += w.overlap(s.Sent, s.Ended) / l.Seconds
		if share := w.share(s); share > 0 {
			came += share * counted(s.Output)
		}
		if s.Outcome == result.Canceled || s.Sent < w.from {
			continue
		}
		l.Requests++
		if s.failed() {
			l.Failed++
			ttft = append(ttft, math.Inf(1))
			continue
		}
		input, output = input+counted(s.Input), output+counted(s.Output)
		if s.Late {
			l.Late++
			continue
		}
		if s.Judgement.Bad == 0 {
			good++
		}
		if s.TTFT >= 0 {
			ttft = append(ttft, s.TTFT.Seconds())
		}
		if s.TPOT >= 0 {
			tpot = append(tpot, s.TPOT.Seconds())
		}
	}
	l.TTFT, l.TPOT = quantiles(ttft), quantiles(tpot)
	if came > 0 {
		l.price(came/l.Seconds, input/output, c)
	}
	if judged := l.Requests - l.Late; o != nil && o.HasLatency() && judged > 0 {
		l.Goodput = new(float64(good) / float64(judged))
	}
	if o != nil {
		wrong := alpha // of each objective, so that a level that meets both is found to miss one no more often
		if o.TTFT > 0 && o.TPOT > 0 {
			wrong /= 2
		}
		l.hold(o.TTFT, wrong, ttft)
		l.hold(o.TPOT, wrong, append(tpot, slices.Repeat([]float64{math.Inf(1)}, l.Failed)...))
	}
	return l
}

// window is a part of a run.
type window struct{ from, to time.Duration }

// steady returns the steady state of a level: nothing of one whose load was never all there.
func steady(rec *Recorded) window {
	if rec.Full <= 0 {
		return window{}
	}
	warm := rec.Full
	for i := range rec.Samples {
		if s := &rec.Samples[i]; s.Sent <= rec.Full {
			warm = max(warm, s.Ended)
		}
	}
	return window{max(rec.Full, min(warm, rec.Begin+(rec.Stop-rec.Begin)/3)), rec.Stop}
}

// overlap returns for how many seconds of the window something was.
func (w window) overlap(begin, end time.Duration) float64 {
	return max(0, min(end, w.to)-max(begin, w.from)).Seconds()
}

// share returns which share of the tokens of an answer came in the window: they are spread evenly from the first to the
// end. Those of a request that failed or was canceled do not count.
func (w window) share(s *Sample) float64 {
	if s.failed() {
		return 0
	}
	first := s.Ended - 1
	if s.TTFT >= 0 {
		first = min(first, s.Sent+s.TTFT)
	}
	return w.overlap(first, s.Ended) / (s.Ended - first).Seconds()
}

// counted returns a count of tokens; NaN where it is not known.
func counted(tokens int) float64 { return workload.If(tokens >= 0, float64(tokens)) }

// quantiles returns those of values in the order of time, which it sorts.
func quantiles(values []float64) Quantiles {
	inTime := slices.Clone(values)
	slices.Sort(values)
	n := len(values)
	known := func(rank int) float64 {
		if rank < 1 || rank > n || math.IsInf(values[rank-1], 1) {
			return 0
		}
		return values[rank-1]
	}
	of := func(p float64) (q Quantile) {
		rank := stats.Rank(n, p)
		if rank > n {
			return q
		}
		effective := stats.Effective(inTime, func(v float64) bool { return v <= values[rank-1] })
		lower, upper := stats.RankBounds(effective, p, alpha/2)
		q.Lower, q.Upper = known(lower*(n+1)/(effective+1)), known((upper*(n+1)+effective)/(effective+1))
		if rank < n { // the largest may be anywhere above it
			q.Value = known(rank)
		}
		return q
	}
	q := Quantiles{P50: of(0.5), P90: of(0.9), P99: of(0.99)}
	if known(n) > 0 {
		for _, v := range values {
			q.Mean += v / float64(n)
		}
	}
	return q
}

// price sets the tokens per second, and what they cost, given how many of a prompt there are for each of an answer.
func (l *Level) price(perSecond, inputs float64, c Context) {
	l.OutputTokensPerSecond = perSecond
	if c.GPUs > 0 {
		l.OutputTokensPerSecondPerGPU = perSecond / float64(c.GPUs)
	}
	if p := c.Price.InUSD(); p.PerHour > 0 {
		l.USDPerMillionOutputTokens = p.PerHour / 3600 / perSecond * 1e6
	} else if inputs >= 0 && !math.IsInf(inputs, 0) {
		l.USDPerMillionOutputTokens = p.Output + p.Input*inputs
	}
}

// hold holds the 99th percentile of latencies against an objective, 0 for none, which it is found to miss wrongly with
// the probability wrong at most. Requests that failed are infinite.
func (l *Level) hold(limit time.Duration, wrong float64, values []float64) {
	if limit <= 0 || len(values) == 0 {
		return
	}
	over := stats.Count(values, func(v float64) bool { return v > limit.Seconds() })
	confidence := min(1, stats.AtLeast(len(values), over+1, overShare))
	if l.Verdict != "" {
		confidence = min(confidence, l.Confidence)
	}
	l.Confidence = confidence
	switch {
	case l.Verdict == Missed || stats.AtLeast(len(values), over, overShare) <= wrong:
		l.Verdict = Missed
	case confidence < 1-alpha:
		l.Verdict = Undecided
	default:
		l.Verdict = Met
	}
}

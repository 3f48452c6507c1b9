package loadtest

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
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
	if w.length() <= 0 {
		return l
	}
	l.Seconds = w.length().Seconds()
	var ttft, tpot []float64
	good := 0
	for i := range rec.Samples {
		s := &rec.Samples[i]
		l.InFlight += w.overlap(s.Sent, s.Ended).Seconds() / l.Seconds
		if s.Outcome == result.Canceled || s.Sent < w.from {
			continue
		}
		l.Requests++
		switch {
		case s.failed():
			l.Failed++
			ttft = append(ttft, math.Inf(1))
			continue
		case s.Late:
			l.Late++
			continue
		case s.Judgement.Bad == 0:
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
	if judged := l.Requests - l.Late; o != nil && o.HasLatency() && judged > 0 {
		l.Goodput = new(float64(good) / float64(judged))
	}
	l.count(rec, w, c)
	if o != nil {
		l.judge(o, ttft, tpot)
	}
	return l
}

// window is a part of a run.
type window struct{ from, to time.Duration }

func (w window) length() time.Duration { return w.to - w.from }

// overlap returns how long something was in the window.
func (w window) overlap(begin, end time.Duration) time.Duration {
	return max(0, min(end, w.to)-max(begin, w.from))
}

// steady returns the steady state of a level: no window of one whose load was never all there.
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

// quantiles returns those of values, which it sorts.
func quantiles(values []float64) Quantiles {
	slices.Sort(values)
	n := len(values)
	at := func(rank int) float64 {
		if rank < 1 || rank > n || math.IsInf(values[rank-1], 1) {
			return 0
		}
		return values[rank-1]
	}
	of := func(p float64) Quantile {
		lower, upper := stats.RankBounds(n, p, alpha/2)
		return Quantile{Value: at(stats.Rank(n, p)), Lower: at(lower), Upper: at(upper)}
	}
	return Quantiles{of(0.5), of(0.9), of(0.99)}
}

// count finds out how many tokens came in the window, and what they cost. The tokens of a request are spread evenly from
// its first to its end; those of one that failed or was canceled are not counted.
func (l *Level) count(rec *Recorded, w window, c Context) {
	var came, input, output float64
	for i := range rec.Samples {
		s := &rec.Samples[i]
		if s.failed() {
			continue
		}
		if share := w.share(s); share > 0 {
			came += share * counted(s.Output)
		}
		if s.Sent >= w.from {
			input, output = input+counted(s.Input), output+counted(s.Output)
		}
	}
	perSecond := came / l.Seconds
	if !(perSecond > 0) {
		return
	}
	l.OutputTokensPerSecond = perSecond
	if c.GPUs > 0 {
		l.OutputTokensPerSecondPerGPU = perSecond / float64(c.GPUs)
	}
	switch p := c.Price.InUSD(); {
	case c.USDPerHour > 0:
		l.USDPerMillionOutputTokens = c.USDPerHour / 3600 / perSecond * 1e6
	case input >= 0 && output > 0:
		l.USDPerMillionOutputTokens = p.Output + p.Input*input/output
	}
}

// counted returns a count of tokens; NaN where it is not known.
func counted(tokens int) float64 {
	if tokens < 0 {
		return math.NaN()
	}
	return float64(tokens)
}

// share returns which share of the tokens of a request came in the window.
func (w window) share(s *Sample) float64 {
	first := s.Ended
	if s.TTFT >= 0 {
		first = min(s.Sent+s.TTFT, s.Ended)
	}
	switch took := s.Ended - first; {
	case took > 0:
		return float64(w.overlap(first, s.Ended)) / float64(took)
	case w.from <= first && first < w.to:
		return 1
	}
	return 0
}

// judge holds the 99th percentiles against the objectives of TTFT and TPOT. A request that failed is over each.
func (l *Level) judge(o *series.Objectives, ttft, tpot []float64) {
	for _, h := range []struct {
		limit          time.Duration
		values         []float64
		failed, judged int
	}{{o.TTFT, ttft, 0, len(ttft)}, {o.TPOT, tpot, l.Failed, len(tpot) + l.Failed}} {
		if h.limit <= 0 || h.judged == 0 {
			continue
		}
		over := h.failed + stats.Count(h.values, func(v float64) bool { return v > h.limit.Seconds() })
		confidence := min(1, stats.AtLeast(h.judged, over+1, overShare))
		if l.Verdict == "" || confidence < l.Confidence {
			l.Confidence = confidence
		}
		switch {
		case l.Verdict == Missed || stats.AtLeast(h.judged, over, overShare) <= alpha:
			l.Verdict = Missed
		case l.Confidence < 1-alpha:
			l.Verdict = Undecided
		default:
			l.Verdict = Met
		}
	}
}

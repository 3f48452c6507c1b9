package compare

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Pairs of the same figures, until the verdict.
func TestVerdicts(t *testing.T) {
	good := Figures{TTFT: 0.2, TPOT: 0.02, Requests: 1, Judged: 1}
	failed := Figures{Requests: 1, Failed: 1}
	slow, wrong, vectors := good, good, Figures{Duration: 0.1, Requests: 1}
	slow.TPOT *= 1.2
	wrong.Wrong = 1
	f := func(name string, baseline, candidate Figures, want Verdict, of map[Quantity]Verdict) {
		t.Helper()
		c := New(Defaults())
		for c.Pairs() < 200 && c.Verdict() == Undecided && !c.Hopeless() {
			c.Add(baseline, candidate)
		}
		got := map[Quantity]Verdict{}
		for _, finding := range c.Findings() {
			got[finding.Quantity] = finding.Verdict
		}
		if diff := cmp.Diff(of, got); diff != "" || c.Verdict() != want {
			t.Errorf("%s: %s after %d pairs, want %s (-want +got):\n%s", name, c.Verdict(), c.Pairs(), want, diff)
		}
	}
	f("equal", good, good, Pass, map[Quantity]Verdict{TTFT: Pass, TPOT: Pass, Duration: NotMeasured, Failures: Pass, WrongAnswers: Pass})
	f("better", slow, good, Pass, map[Quantity]Verdict{TTFT: Pass, TPOT: Pass, Duration: NotMeasured, Failures: Pass, WrongAnswers: Pass})
	f("slower", good, slow, Regression, map[Quantity]Verdict{TTFT: Pass, TPOT: Regression, Duration: NotMeasured, Failures: Undecided, WrongAnswers: Undecided})
	f("wrong", good, wrong, Regression, map[Quantity]Verdict{TTFT: Pass, TPOT: Pass, Duration: NotMeasured, Failures: Undecided, WrongAnswers: Regression})
	f("down", good, failed, Regression, map[Quantity]Verdict{TTFT: Undecided, TPOT: Undecided, Duration: NotMeasured, Failures: Regression, WrongAnswers: Undecided})
	f("both down", failed, failed, Undecided, map[Quantity]Verdict{TTFT: NotMeasured, TPOT: NotMeasured, Duration: NotMeasured, Failures: Undecided, WrongAnswers: NotMeasured})
	f("embeddings", vectors, vectors, Pass, map[Quantity]Verdict{TTFT: NotMeasured, TPOT: NotMeasured, Duration: Pass, Failures: Pass, WrongAnswers: NotMeasured})
}

// Without a latency there is no pass, however many pairs fail alike.
func TestNoPassWithoutLatency(t *testing.T) {
	c := New(Defaults())
	for range 300 {
		c.Add(Figures{Requests: 1, Failed: 1}, Figures{Requests: 1, Failed: 1})
	}
	if c.Verdict() != Undecided {
		t.Errorf("got %s", c.Verdict())
	}
}

func TestFindings(t *testing.T) {
	c := New(Options{Alpha: 0.05, Latency: 0.15, TPOT: 0.05, Failures: 0.05, WrongAnswers: 0.1})
	for i := range 40 {
		// TTFT in turns 0 % and 20 % longer; one failure in ten of the candidate.
		candidate := Figures{TTFT: 0.2 * (1 + 0.2*float64(i%2)), Requests: 1}
		if i%10 == 0 {
			candidate = Figures{Requests: 1, Failed: 1}
		}
		c.Add(Figures{TTFT: 0.2, Requests: 1}, candidate)
	}
	all := map[Quantity]Finding{}
	for _, f := range c.Findings() {
		all[f.Quantity] = f
	}
	ttft, failures, tpot := all[TTFT], all[Failures], all[TPOT]
	if ttft.Pairs != 36 || !near(ttft.Baseline, 0.2) || !near(ttft.Candidate, 0.24) || !near(ttft.Change, 0.2) || !near(ttft.Margin, 0.15) {
		t.Errorf("%+v", ttft)
	}
	if !(ttft.Lower > -0.01 && ttft.Lower < ttft.Change && ttft.Upper > 0.1 && ttft.Upper < 0.3) {
		t.Errorf("bounds %v to %v", ttft.Lower, ttft.Upper)
	}
	if failures.Pairs != 40 || failures.Baseline != 0 || !near(failures.Candidate, 0.1) || !near(failures.Change, 0.1) || !near(failures.Margin, 0.05) ||
		!(failures.Lower < 0.1 && failures.Upper > 0.1 && failures.Lower > -0.3 && failures.Upper < 0.5) {
		t.Errorf("%+v", failures)
	}
	if tpot.Pairs != 0 || !tpot.Baseline.IsZero() || !tpot.Change.IsZero() || !tpot.Lower.IsZero() || !tpot.Upper.IsZero() {
		t.Errorf("%+v", tpot)
	}
}

func TestFigures(t *testing.T) {
	answer := func(o result.Outcome, ttft, tpot time.Duration, v result.Verdict) *result.Result {
		r := &result.Result{Outcome: o, Kind: api.Generation, Answer: result.Answer{Verdict: v}}
		r.Timing.TTFT, r.Timing.TPOT, r.Timing.Duration = ttft, tpot, time.Second
		return r
	}
	f := func(name string, want Figures, results ...*result.Result) {
		t.Helper()
		got := NewFigures(results)
		if !near(got.TTFT, want.TTFT) || !near(got.TPOT, want.TPOT) || !near(got.Duration, want.Duration) ||
			got.Requests != want.Requests || got.Failed != want.Failed || got.Judged != want.Judged || got.Wrong != want.Wrong {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	const ms = time.Millisecond
	f("one", Figures{TTFT: 0.2, TPOT: 0.02, Requests: 1}, answer(result.Success, 200*ms, 20*ms, ""))
	f("geometric means", Figures{TTFT: 0.2, TPOT: 0.02, Requests: 2, Judged: 2, Wrong: 1},
		answer(result.Success, 100*ms, 10*ms, result.VerdictCorrect), answer(result.Success, 400*ms, 40*ms, result.VerdictWrong))
	f("a failure has no latency, nor the run", Figures{Requests: 2, Failed: 1},
		answer(result.Success, 100*ms, 10*ms, ""), answer(result.TimeoutStall, 100*ms, 10*ms, ""))
	f("not as expected", Figures{Requests: 1, Judged: 1, Wrong: 1}, answer(result.CheckFailed, 100*ms, 10*ms, result.VerdictWrongFormat))
	f("no TPOT", Figures{TTFT: 0.1, Requests: 1}, answer(result.Success, 100*ms, result.Absent, ""))

	busy, corrupt := answer(result.Success, 100*ms, 10*ms, ""), answer(result.Success, 100*ms, 10*ms, "")
	busy.Imprecise, busy.Inspected = true, true
	f("imprecise", Figures{Requests: 1, Judged: 1}, busy)
	corrupt.Inspected, corrupt.Integrity = true, result.Signs()[:1]
	f("corrupt", Figures{TTFT: 0.1, TPOT: 0.01, Requests: 1, Judged: 1, Wrong: 1}, corrupt)

	embedding := answer(result.Success, result.Absent, result.Absent, "")
	embedding.Kind = api.Embedding
	embedding.Timing.Phases[result.PhaseConnect] = 250 * ms
	f("embedding", Figures{Duration: 0.75, Requests: 1}, embedding)
	short := answer(result.CheckFailed, result.Absent, result.Absent, "")
	short.Kind, short.Err = api.Embedding, errors.New("1 vectors for 2 inputs")
	f("too few vectors", Figures{Requests: 1, Failed: 1}, short)
}

package report

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

func TestQuantile(t *testing.T) {
	sorted := func(n int) []time.Duration {
		out := make([]time.Duration, n)
		for i := range out {
			out[i] = time.Duration(i+1) * ms
		}
		return out
	}
	f := func(n int, p float64, want time.Duration) {
		t.Helper()
		if got, _, _ := quantileOf(sorted(n), p); *got != want.Seconds() {
			t.Errorf("quantile %g of 1 to %d ms: %g, want %s", p, n, *got, want)
		}
	}
	f(1, 0.5, 1*ms)
	f(1, 0.99, 1*ms)
	f(2, 0.5, 1*ms)
	f(5, 0.5, 3*ms)
	f(99, 0.99, 99*ms)
	f(100, 0.99, 99*ms)
	f(101, 0.99, 100*ms)
	f(700, 0.99, 693*ms)
	if _, lower, upper := quantileOf(sorted(20), 0.5); *lower != 0.006 || *upper != 0.015 {
		t.Errorf("bounds %g and %g, want 6 and 15 ms", *lower, *upper)
	}
	if _, lower, upper := quantileOf(sorted(20), 0.99); *lower != 0.019 || upper != nil {
		t.Errorf("bounds %g and %v, want 19 ms and none", *lower, upper)
	}
}

// series is 8 successes with TTFT 10 to 80 ms, out of order and one of them of
// a single token, and three failures, whose latencies do not count.
func series() *Summary {
	s := NewSummary()
	for i, n := range []int{3, 1, 4, 2, 8, 5, 7, 6} {
		r := oneToken()
		r.Timing.TTFT = time.Duration(n) * 10 * ms
		r.Timing.TTFO = r.Timing.TTFT
		if i > 0 {
			r.Timing.TPOT, r.Timing.MaxGap = 20*ms, time.Duration(20+n)*ms
		}
		r.Timing.Duration = r.Timing.TTFT + time.Second
		s.Add(r)
	}
	s.Add(stalled())
	s.Add(refused())
	again := refused()
	again.Err = errors.New("another reason")
	s.Add(again)
	return s
}

func TestSummary(t *testing.T) {
	s := series()
	if s.Probes() != 11 || s.Outcome(result.Success) != 8 || s.Outcome(result.RateLimited) != 2 || s.Outcome(result.Empty) != 0 {
		t.Errorf("%d probes, outcomes %v", s.Probes(), s.outcomes)
	}
	got := describe(s.samples["ttft_seconds"])
	want := distribution{
		Samples: 8, Min: new(0.01), Max: new(0.08),
		P50: new(0.04), P50Lower: new(0.02), P50Upper: new(0.07), // ranks 2 and 7 of 8
		P99: new(0.08), P99Lower: got.P99Lower,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(s.samples["tpot_seconds"]); n != 7 {
		t.Errorf("%d samples of TPOT, want 7", n)
	}
	golden(t, "summary.txt", func(w io.Writer) error { return s.Text(w, target, Options{}) })
	golden(t, "summary.json", func(w io.Writer) error { return s.JSON(indented{w}, target) })
}

func TestSummaryOfNothing(t *testing.T) {
	golden(t, "summary-empty.txt", func(w io.Writer) error { return NewSummary().Text(w, target, Options{}) })
	golden(t, "summary-empty.json", func(w io.Writer) error { return NewSummary().JSON(indented{w}, target) })
}

// What checked answers came to is counted, whatever their outcome, in the order of
// the documentation.
func TestSummaryOfVerdicts(t *testing.T) {
	s := NewSummary()
	for _, v := range []result.Verdict{result.VerdictLeakedIntoContent, result.VerdictValid, "", result.VerdictValid, result.VerdictBadJSON, result.VerdictValid} {
		r := oneToken()
		r.Answer.Verdict = v
		s.Add(r)
	}
	capture := func(write func(io.Writer) error) string {
		t.Helper()
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	text := capture(func(w io.Writer) error { return s.Text(w, target, Options{}) })
	if want := "\nAnswers\n  3            valid\n  1            bad_json\n  1            leaked_into_content\n"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
	document := capture(func(w io.Writer) error { return s.JSON(w, target) })
	if want := `"verdicts":{"bad_json":1,"leaked_into_content":1,"valid":3}`; !strings.Contains(document, want) {
		t.Errorf("no %s in %s", want, document)
	}
}

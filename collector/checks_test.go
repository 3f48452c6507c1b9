package collector

import (
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/check"
)

// verdicts checks the counters of the series of newStore: correct, wrong,
// wrong_format, refused and repetition. An empty value is an absent sample.
func verdicts(t *testing.T, p *Probes, want ...string) {
	t.Helper()
	all := map[string]string{}
	for i, v := range []string{"correct", "wrong", "wrong_format", "refused", "repetition"} {
		all[`probe_checks_total verdict="`+v+`"`] = want[i]
	}
	has(t, p, all)
}

// Verdicts count whatever the outcome, from the start with the value 0, and only
// where answers are checked.
func TestChecks(t *testing.T) {
	p, s := newStore()
	s.setServed(api.Generation, "m")
	answer := func(o result.Outcome, v check.Verdict) {
		r := success()
		r.Outcome, r.Answer.Verdict = o, v
		s.Observe(r)
	}
	answer(result.Success, check.Correct)
	verdicts(t, p, "", "", "", "", "")
	s.configure(SeriesOptions{ChecksAnswers: true})
	verdicts(t, p, "0", "0", "0", "0", "0")
	answer(result.Success, check.Correct)
	answer(result.Success, check.Correct)
	answer(result.Success, check.Wrong) // a question
	answer(result.CheckFailed, check.Wrong)
	answer(result.CheckFailed, check.WrongFormat)
	answer(result.Success, check.Refused)
	answer(result.Truncated, check.Repetition)
	answer(result.ConnectError, "")
	answer(result.Success, "no such verdict")
	answer(result.Canceled, check.Correct)
	s.configure(SeriesOptions{ChecksAnswers: true}) // changes nothing
	verdicts(t, p, "2", "2", "1", "1", "1")

	r := success()
	r.Model = "other"
	s.Observe(r)
	r.Model = "m"
	s.Observe(r)
	verdicts(t, p, "0", "0", "0", "0", "0")
	s.configure(SeriesOptions{ChecksAnswers: false})
	verdicts(t, p, "", "", "", "", "")
}

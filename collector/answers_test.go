package collector

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
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
	answer := func(o result.Outcome, v result.Verdict) {
		r := success()
		r.Outcome, r.Answer.Verdict = o, v
		s.Observe(r)
	}
	answer(result.Success, result.VerdictCorrect)
	verdicts(t, p, "", "", "", "", "")
	s.configure(SeriesOptions{Verdicts: result.AnswerVerdicts()})
	verdicts(t, p, "0", "0", "0", "0", "0")
	answer(result.Success, result.VerdictCorrect)
	answer(result.Success, result.VerdictCorrect)
	answer(result.Success, result.VerdictWrong) // a question
	answer(result.CheckFailed, result.VerdictWrong)
	answer(result.CheckFailed, result.VerdictWrongFormat)
	answer(result.Success, result.VerdictRefused)
	answer(result.Truncated, result.VerdictRepetition)
	answer(result.ConnectError, "")
	answer(result.Success, "no such verdict")
	answer(result.Canceled, result.VerdictCorrect)
	s.configure(SeriesOptions{Verdicts: result.AnswerVerdicts()}) // changes nothing
	verdicts(t, p, "2", "2", "1", "1", "1")

	r := success()
	r.Model = "other"
	s.Observe(r)
	r.Model = "m"
	s.Observe(r)
	verdicts(t, p, "0", "0", "0", "0", "0")
	s.configure(SeriesOptions{})
	verdicts(t, p, "", "", "", "", "")
}

// A module has counters of the verdicts that its answers may have, and the times of
// valid calls where it asks for calls.
func TestCallsOfTools(t *testing.T) {
	p, s := newStore()
	s.setServed(api.Generation, "m")
	hasCalls := func(counts map[result.Verdict]string, timed, first, complete string) {
		t.Helper()
		want := map[string]string{
			"probe_first_argument_seconds_count": timed, "probe_first_argument_seconds_sum": first,
			"probe_complete_call_seconds_count": timed, "probe_complete_call_seconds_sum": complete,
		}
		for _, v := range result.Verdicts() {
			want[`probe_checks_total verdict="`+string(v)+`"`] = counts[v]
		}
		has(t, p, want)
	}
	hasCalls(nil, "", "", "")
	s.configure(SeriesOptions{Verdicts: result.ToolCallVerdicts(), Calls: true})
	hasCalls(map[result.Verdict]string{
		result.VerdictValid: "0", result.VerdictBadJSON: "0", result.VerdictBadSchema: "0", result.VerdictWrongTool: "0", result.VerdictNoCall: "0", result.VerdictLeakedIntoContent: "0", result.VerdictTruncated: "0",
	}, "0", "0", "0")
	call := func(o result.Outcome, v result.Verdict, imprecise bool, first, complete time.Duration) {
		r := success()
		r.Outcome, r.Answer.Verdict, r.Imprecise, r.Call = o, v, imprecise, result.Call{FirstArgument: first, Complete: complete}
		s.Observe(r)
	}
	call(result.Success, result.VerdictValid, false, 250*time.Millisecond, 500*time.Millisecond)
	call(result.Success, result.VerdictValid, false, 500*time.Millisecond, time.Second)
	call(result.Success, result.VerdictLeakedIntoContent, false, 0, 0)
	call(result.TimeoutStall, "", false, 0, 0)
	call(result.Success, result.VerdictValid, true, time.Second, time.Second) // is counted, not timed
	s.configure(SeriesOptions{Verdicts: result.ToolCallVerdicts(), Calls: true})
	hasCalls(map[result.Verdict]string{
		result.VerdictValid: "3", result.VerdictBadJSON: "0", result.VerdictBadSchema: "0", result.VerdictWrongTool: "0", result.VerdictNoCall: "0", result.VerdictLeakedIntoContent: "1", result.VerdictTruncated: "0",
	}, "2", "0.75", "1.5")

	s.configure(SeriesOptions{Verdicts: result.StructuredVerdicts()})
	hasCalls(map[result.Verdict]string{result.VerdictValid: "3", result.VerdictBadJSON: "0", result.VerdictBadSchema: "0", result.VerdictTruncated: "0"}, "", "", "")
}

package collector

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
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

// fluent is strict with an objective of fluidity.
func fluent() *config.SLO {
	slo := strict()
	slo.Fluidity = 0.75
	return &slo
}

// streamed is a success whose events came so many milliseconds after the request was
// sent, each with as many tokens; the deadlines of strict are 200 ms and then every 20 ms.
func streamed(tokens int, at ...time.Duration) *result.Result {
	r := success()
	r.Tokens.Output, r.Timing.TTFT = tokens, at[0]*time.Millisecond
	for _, after := range at {
		r.Events = append(r.Events, result.Event{At: after * time.Millisecond})
	}
	r.Decoded = result.TokenSpan{Last: len(at) - 1, Tokens: tokens, FirstTokens: 1}
	return r
}

func TestFluidity(t *testing.T) {
	p, s := newStore()
	s.setServed(api.Generation, "m")
	s.configure(SeriesOptions{Objectives: series.NewObjectives(*fluent()), Log: new(series.Log)})
	observe := func(r *result.Result) *float64 {
		s.Observe(r)
		return judge(s, r).Fluidity()
	}
	counted := func(eligible, bad, deadlines, missed string) {
		t.Helper()
		has(t, p, map[string]string{
			`probe_slo_eligible_total slo="fluidity"`: eligible, `probe_slo_bad_total slo="fluidity"`: bad,
			"probe_token_deadlines_total": deadlines, "probe_token_deadlines_missed_total": missed,
			"slo_fluidity_ratio": "0.75", `slo_objective_ratio slo="fluidity"`: "0.95", `slo_threshold_seconds slo="fluidity"`: "",
		})
	}
	counted("0", "0", "0", "0")
	if got := observe(streamed(4, 200, 220, 240, 260)); got == nil || *got != 1 {
		t.Errorf("fluidity %v of a stream in time", got)
	}
	counted("1", "0", "4", "0")
	// Due at 240, late by 10: 3 of 4, exactly as many as promised.
	if got := observe(streamed(4, 200, 220, 250, 260)); got == nil || *got != 0.75 {
		t.Errorf("fluidity %v, want 0.75", got)
	}
	counted("2", "0", "8", "1")
	observe(streamed(4, 200, 220, 260, 270)) // one more deadline, at 260
	counted("3", "1", "13", "3")

	stall := streamed(4, 200, 220, 240, 260)
	stall.Outcome = result.TimeoutStall
	if got := observe(stall); got != nil {
		t.Errorf("fluidity %v of a stream that stalled", *got)
	}
	counted("4", "2", "13", "3")

	f := func(change func(r *result.Result)) {
		t.Helper()
		r := streamed(4, 200, 220, 260, 270)
		change(r)
		if got := observe(r); got != nil {
			t.Errorf("fluidity %v", *got)
		}
		counted("4", "2", "13", "3")
	}
	f(func(r *result.Result) { r.Outcome = result.ConnectError })
	f(func(r *result.Result) { r.Outcome = result.Canceled })
	f(func(r *result.Result) { r.Imprecise = true })
	f(func(r *result.Result) { r.Tokens.Output = 2 })
	f(func(r *result.Result) { r.Buffered, r.Decoded = true, result.TokenSpan{} })

	other := streamed(4, 200, 220, 240, 260)
	other.Model = "m2"
	observe(other)
	observe(streamed(4, 200, 220, 240, 260)) // begins at zero
	counted("1", "0", "4", "0")
}

// Nothing of it is on the page of an endpoint that has no such objective, or embeds.
func TestNoFluidity(t *testing.T) {
	for _, o := range []SeriesOptions{{Kind: api.Generation, Objectives: series.NewObjectives(strict()), Log: new(series.Log)}, {Kind: api.Embedding, Objectives: series.NewObjectives(*fluent()), Log: new(series.Log)}} {
		p, s := newStore()
		s.configure(o)
		r := streamed(4, 200, 220, 240, 260)
		r.Kind = o.Kind
		s.Observe(r)
		judge(s, r)
		for name := range samples(t, p) {
			if strings.Contains(name, "fluidity") || strings.Contains(name, "deadline") || strings.Contains(name, "streamed") || strings.Contains(name, "waiting") {
				t.Errorf("%s of %+v", name, o)
			}
		}
	}
}

// Tokens per event are counted from the first stream on that has several, and then of all,
// so that their loss shows.
func TestTokensPerEvent(t *testing.T) {
	p, s := newStore()
	s.configure(SeriesOptions{Kind: api.Generation})
	f := func(tokens, events string, r *result.Result) {
		t.Helper()
		s.Observe(r)
		has(t, p, map[string]string{"probe_streamed_tokens_total": tokens, "probe_streamed_events_total": events})
	}
	f("", "", streamed(6, 200, 220, 240, 260, 280, 300))
	f("", "", streamed(8, 200, 220, 240, 260, 280, 300, 320)) // an eighth without text, as an end of text
	f("5", "2", streamed(6, 200, 250, 300))
	f("7", "4", streamed(3, 200, 220, 240))
	disturbed := streamed(6, 200, 250, 300)
	s.Add(&series.Observation{Result: disturbed, Disturbed: true})
	imprecise := streamed(6, 200, 250, 300)
	imprecise.Imprecise = true
	f("7", "4", imprecise)
	failed := streamed(6, 200, 250, 300)
	failed.Outcome = result.Truncated
	f("7", "4", failed)
}

// Users who wait count in the histogram, the window and the objective of TTFT alike.
func TestJudgeWaiting(t *testing.T) {
	slo := strict()
	slo.CorrectCoordinatedOmission = true
	p, s := newStore()
	s.setServed(api.Generation, "m")
	s.configure(SeriesOptions{Objectives: series.NewObjectives(slo), Log: new(series.Log)})
	has(t, p, map[string]string{"probe_waiting_total": "0"})
	r := success()
	s.Observe(r)
	judge(s, r)
	for _, c := range []struct {
		wait time.Duration
		bad  bool
	}{{200 * time.Millisecond, false}, {201 * time.Millisecond, true}, {result.Absent, true}} {
		s.slo.log.AddWait(r.Start.Add(time.Second), c.wait, c.bad)
		s.CountWait(c.wait, c.bad)
	}
	hasCounts(t, p, [4]counts{good, {4, 2}, good, good})
	has(t, p, map[string]string{
		"probe_waiting_total": "3", "probe_ttft_window_samples": "4", "probe_ttft_seconds_count": "3",
		`probe_results_total outcome="success"`: "1",
	})
}

// The latest step of each metric is on the page, failures without a ratio; another model
// has none.
func TestSteps(t *testing.T) {
	p, s := newStore()
	s.Observe(success())
	absent := map[string]string{}
	for _, name := range []string{"probe_step_timestamp_seconds", "probe_step_ratio", "probe_step_ratio_lower", "probe_step_ratio_upper"} {
		for _, m := range []string{"ttft", "tpot", "failures"} {
			absent[name+` metric="`+m+`"`] = ""
		}
	}
	has(t, p, absent)
	step := func(m series.Metric, at int64, before, after float64) {
		s.SetStep(series.Step{At: time.Unix(at, 0), Metric: m, Before: before, After: after, Lower: 1.25, Upper: 1.75})
	}
	step(series.MetricTTFT, 1000, 1, 4)
	step(series.MetricFailures, 1500, 0, 0.5)
	step(series.MetricTTFT, 2000, 0.5, 0.75)
	has(t, p, map[string]string{
		`probe_step_timestamp_seconds metric="ttft"`:     "2000",
		`probe_step_timestamp_seconds metric="tpot"`:     "",
		`probe_step_timestamp_seconds metric="failures"`: "1500",
		`probe_step_ratio metric="ttft"`:                 "1.5",
		`probe_step_ratio_lower metric="ttft"`:           "1.25",
		`probe_step_ratio_upper metric="ttft"`:           "1.75",
		`probe_step_ratio metric="failures"`:             "",
	})
	r := success()
	r.Model = "other"
	s.Observe(r)
	r.Model = "m"
	s.Observe(r)
	has(t, p, absent)
}

package fleet

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/internal/workload/answers"
)

const checksFamily = "inference_probe_checks_total"

// verdicts is what the checks of an endpoint came to.
func verdicts(p metricsPage, labels ...string) map[result.Verdict]uint64 {
	all := map[result.Verdict]uint64{}
	for _, v := range result.Verdicts() {
		all[v] = uint64(p.Sum(checksFamily, append(labels, "verdict", string(v))...))
	}
	return all
}

// told returns the verdicts on the answers of a server, by its own records.
func told(w *testlab.Witness) map[result.Verdict]uint64 {
	all := map[result.Verdict]uint64{}
	for _, v := range result.Verdicts() {
		all[v] = 0
	}
	for _, r := range w.Records() { // when all have ended
		if r.Verdict != "" {
			all[r.Verdict]++
		}
	}
	return all
}

// An answer other than expected is a failed probe; without an expectation the
// same answer is none.
func TestExpectationsAgainstTheSimulator(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, testlab.Swift())
		const question = "What is 17 + 25? Answer with the number only."
		l := workLab(t, fmt.Sprintf(`
modules:
  right: {prompt: %[1]q, output_tokens: 16, expect: {matches: '\b42\b', finish_reason: [stop], max_length: 10}}
  wrong: {prompt: %[1]q, output_tokens: 16, expect: {equals: "43"}}
  cut: {prompt: Count., output_tokens: 16, expect: {finish_reason: [stop]}}
  plain: {prompt: %[1]q, output_tokens: 16}
endpoints: [{name: e, url: %[2]s, modules: [right, wrong, cut, plain]}]`, question, w.URL))
		p := l.times(3, "e")
		for module, want := range map[string]struct {
			outcome result.Outcome
			verdict result.Verdict
		}{
			"right": {result.Success, result.VerdictCorrect},
			"wrong": {result.CheckFailed, result.VerdictWrong},
			"cut":   {result.CheckFailed, result.VerdictWrongFormat},
			"plain": {result.Success, ""},
		} {
			if got := p.Sum("inference_probe_results_total", "module", module, "outcome", string(want.outcome)); got != 3 {
				t.Errorf("%s: %v results of %s, want 3", module, got, want.outcome)
			}
			bad := 0.0
			if want.outcome != result.Success {
				bad = 3
			}
			if got := p.Sum("inference_probe_slo_bad_total", "module", module, "slo", "availability"); got != bad {
				t.Errorf("%s: %v bad probes, want %v", module, got, bad)
			}
			if p.Has(checksFamily, "module", module) != (want.verdict != "") {
				t.Errorf("%s: verdicts on the page: %t", module, p.Has(checksFamily, "module", module))
			}
			for v, n := range verdicts(p, "module", module) {
				if (v == want.verdict) != (n == 3) || v != want.verdict && n != 0 {
					t.Errorf("%s: %d answers are %s", module, n, v)
				}
			}
		}
	})
}

// The share of right answers is the one that the server gave, before and after
// its model got worse, and a wrong one is no failure.
func TestQuestionsAgainstTheSimulator(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Swift()
		o.Quality = 0.75
		w := testlab.NewWitness(t, o)
		l := workLab(t, fmt.Sprintf(`
modules: {questions: {questions: true, output_tokens: 64}}
endpoints: [{name: e, url: %s, modules: [questions]}]`, w.URL))
		n := len(answers.Questions())
		before := map[result.Verdict]uint64{}
		for _, quality := range []float64{0.75, 0.25} {
			w.SetWeights("", 0, quality)
			p := l.times(n, "e") // each of them once
			got, want := verdicts(p), told(w)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answers by what they are worth (-server +page):\n%s", diff)
			}
			right := got[result.VerdictCorrect] - before[result.VerdictCorrect]
			if known := uint64(math.Round(quality * float64(n))); right != known {
				t.Errorf("%d right answers of %d, want %d", right, n, known)
			}
			t.Logf("quality %v: %v of %d questions", quality, got, n)
			before = maps.Clone(got)
			if failed := p.Probes("e") - p.Sum("inference_probe_results_total", "outcome", "success"); failed != 0 {
				t.Errorf("%v probes failed", failed)
			}
		}
		for _, v := range result.AnswerVerdicts() {
			if before[v] == 0 {
				t.Errorf("the server gave no answer that is %s", v)
			}
		}
	})
}

// No answer is logged unless the module says so, and then not the whole of a
// long one.
func TestLogOfAnswers(t *testing.T) {
	t.Parallel()
	for _, logged := range []bool{false, true} {
		t.Run(fmt.Sprint(logged), func(t *testing.T) {
			testlab.Virtual(t, func(t *testing.T) {
				w := testlab.NewWitness(t, testlab.Swift())
				var log bytes.Buffer
				l, cfg := newLab(t), parse(t, fmt.Sprintf(`
modules: {long: {prompt: Count., output_tokens: 100, expect: {equals: nothing}, log_answers: %t}}
endpoints: [{name: e, url: %s, modules: [long]}]`, logged, w.URL))
				l.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				l.Health = health.NewShared(time.Now, l.Logger)
				if err := l.Apply(planOf(cfg)); err != nil {
					t.Fatal(err)
				}
				l.times(2, "e")
				with := func(text string) (lines []string) {
					for line := range strings.Lines(log.String()) {
						if strings.Contains(line, text) {
							lines = append(lines, line)
						}
					}
					return lines
				}
				if len(with("check_failed")) != 1 {
					t.Errorf("want one line of the failure:\n%s", &log)
				}
				lines := with("answer not as expected")
				if !logged {
					for _, word := range []string{"three four", "thirty-one", "Count."} {
						if strings.Contains(log.String(), word) {
							t.Errorf("%q is in the log:\n%s", word, &log)
						}
					}
					if len(lines) != 0 {
						t.Errorf("%q", lines)
					}
					return
				}
				if len(lines) != 2 {
					t.Fatalf("%d lines of answers, want 2:\n%s", len(lines), &log)
				}
				answer := regexp.MustCompile(`answer="([^"]*)"`).FindStringSubmatch(lines[0])
				if answer == nil || !strings.HasPrefix(answer[1], "zero one two three") || len(answer[1]) > 200 || len(answer[1]) < 150 {
					t.Errorf("the answer in the log is %q", answer)
				}
			})
		})
	}
}

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/compare"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// compared is a comparison that found a longer TPOT.
func compared() *Comparison {
	stable, canary := NewSide("stable", "http://a:8000", nil), NewSide("canary<\x1b", "http://b:8000", nil)
	stable.Add(&result.Result{Outcome: result.Success})
	canary.Add(&result.Result{Outcome: result.Success}, &result.Result{Outcome: result.Overloaded})
	nan := compare.Amount(math.NaN())
	return &Comparison{
		Module: "interactive", Baseline: stable, Candidate: canary,
		Verdict: compare.Regression, Pairs: 34, MaxPairs: 300, Alpha: 0.05, Seed: 7,
		Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: 1.5,
		Findings: []compare.Finding{
			{Quantity: compare.TTFT, Verdict: compare.Undecided, Pairs: 33, Baseline: 0.2, Candidate: 0.21, Change: 0.05, Lower: nan, Upper: 0.2, Margin: 0.15},
			{Quantity: compare.TPOT, Verdict: compare.Regression, Pairs: 33, Baseline: 0.02, Candidate: 0.0232, Change: 0.16, Lower: 0.061, Upper: 0.25, Margin: 0.05},
			{Quantity: compare.Duration, Verdict: compare.NotMeasured, Pairs: 0, Baseline: nan, Candidate: nan, Change: nan, Lower: nan, Upper: nan, Margin: 0.15},
			{Quantity: compare.Failures, Verdict: compare.Pass, Pairs: 34, Baseline: 0.001, Candidate: 0.0304, Change: 0.0294, Lower: -0.02, Upper: 0.04, Margin: 0.05},
		},
	}
}

func TestComparisonText(t *testing.T) {
	var b bytes.Buffer
	if err := compared().Text(&b, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"regression after 34 pairs, module interactive\n  candidate    canary<\uFFFD (http://b:8000)\n  baseline     stable (http://a:8000)\n",
		"           TTFT   200 ms    210 ms   +5.0 %        -  +20.0 %  15.0 %  undecided\n",
		"           TPOT  20.0 ms   23.2 ms  +16.0 %   +6.1 %  +25.0 %   5.0 % regression\n",
		"       failures    0.1 %    3.04 %  +2.9 pp  -2.0 pp  +4.0 pp  5.0 pp       pass\n",
		"at most 5 %",
		"\n1 of 2 requests of the candidate did not succeed\n\n1 × overloaded\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, &b)
		}
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.Contains(b.String(), "duration") || strings.Contains(b.String(), "of the baseline did not") {
		t.Errorf("too much:\n%s", &b)
	}
}

// Two recorded streams of real servers, an event each 20 ms: by their tokens the candidate is faster, by its text slower.
func TestComparisonOfTwoTokenizers(t *testing.T) {
	stream := func(tpot, character time.Duration, output int) *result.Result {
		return &result.Result{
			Outcome: result.Success, Timing: result.Timing{TPOT: tpot, PerCharacter: character},
			Tokens: result.Tokens{Prompt: 20, Output: output},
		}
	}
	price := &config.Price{InputUSD: 1, OutputUSD: 4}
	c := &Comparison{Module: "interactive", Baseline: NewSide("words", "http://a", price), Candidate: NewSide("pieces", "http://b", nil)}
	c.Baseline.Add(stream(840*ms/44, 840*ms/263, 45))
	c.Candidate.Add(stream(1140*ms/63, 1140*ms/279, 64))
	c.End(compare.New(compare.Defaults()))
	var text, document bytes.Buffer
	if err := errors.Join(c.Text(&text, Options{}), c.JSON(&document)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{ // 20 * $1 + 45 * $4 for a million
		"\nText and cost\n  baseline     313 characters/s, 5.98 to a token, $0.000200 a request, $4.44 for\n               a million output tokens with their prompts\n",
		"    at         a single request at a time, beside what others ask\n",
		"  candidate    245 characters/s, 4.43 to a token\n",
		"\n  The tokens of the two are not alike: compare characters/s, and not TPOT.\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
	if want := `"compared":{"output_characters_per_second":313.09`; !strings.Contains(document.String(), want) {
		t.Errorf("%q is not in\n%s", want, &document)
	}
}

func TestComparisonJSON(t *testing.T) {
	var b bytes.Buffer
	if err := compared().JSON(&b); err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"comparison": {
		"time": "2026-01-02T03:04:05Z", "took_seconds": 1.5, "verdict": "regression", "module": "interactive",
		"baseline": {"endpoint": "stable", "url": "http://a:8000", "outcomes": {"success": 1}},
		"candidate": {"endpoint": "canary<\u001b", "url": "http://b:8000", "outcomes": {"success": 1, "overloaded": 1}},
		"pairs": 34, "max_pairs": 300, "alpha": 0.05, "seed": 7,
		"quantities": [
			{"quantity": "ttft", "verdict": "undecided", "pairs": 33, "baseline": 0.2, "candidate": 0.21, "change": 0.05, "change_upper": 0.2, "margin": 0.15},
			{"quantity": "tpot", "verdict": "regression", "pairs": 33, "baseline": 0.02, "candidate": 0.0232, "change": 0.16, "change_lower": 0.061, "change_upper": 0.25, "margin": 0.05},
			{"quantity": "duration", "verdict": "not_measured", "pairs": 0, "margin": 0.15},
			{"quantity": "failures", "verdict": "pass", "pairs": 34, "baseline": 0.001, "candidate": 0.0304, "change": 0.0294, "change_lower": -0.02, "change_upper": 0.04, "margin": 0.05}
		]}}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What an undecided quantity is depends on why the comparison ended.
func TestComparisonJUnit(t *testing.T) {
	c := compared()
	f := func(want ...string) {
		t.Helper()
		var b bytes.Buffer
		if err := c.JUnit(&b); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%q is not in\n%s", w, &b)
			}
		}
	}
	f(`<testsuite name="inference_exporter compare" tests="4" failures="1" errors="0" skipped="2" time="1.500" timestamp="2026-01-02T03:04:05">`,
		`classname="canary&lt;`+"\uFFFD"+` against stable" name="TPOT"`,
		`<failure message="baseline 20.0 ms, candidate 23.2 ms, change +16.0 % (+6.1 % to +25.0 %), margin +5.0 %, 33 pairs">`)
	c.Verdict, c.Findings = compare.Undecided, c.Findings[:1]
	f(`failures="0" errors="1" skipped="0"`, `<error message="baseline 200 ms, candidate 210 ms, change +5.0 % (- to +20.0 %), margin +15.0 %, 33 pairs">`)
}

package fleet

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

const (
	rateFamily  = "inference_probe_prefill_tokens_per_second"
	fixedFamily = "inference_probe_ttft_fixed_seconds"
)

// lengthsLab is a fleet that asks a server for prompts of some lengths.
func lengthsLab(t *testing.T, url, lengths string) *lab {
	t.Helper()
	return workLab(t, fmt.Sprintf(`
modules: {lengths: {input_tokens: %s, output_tokens: 2, prefix: cold}}
endpoints: [{name: e, url: %s, modules: [lengths]}]`, lengths, url))
}

// line is the line through the medians of the shortest and the longest prompts:
// how the time to the first token grew at the server itself.
func line(t *testing.T, all []simulator.Record, short, long int) (rate, fixed float64) {
	t.Helper()
	at := func(length int) (tokens, seconds float64) {
		var n, s []float64
		for i := range all {
			if math.Abs(float64(all[i].PromptTokens)/float64(length)-1) < 0.1 {
				n = append(n, float64(all[i].PromptTokens-all[i].CachedTokens))
				s = append(s, firstToken(&all[i]))
			}
		}
		if len(n) == 0 {
			t.Fatalf("no request of %d tokens", length)
		}
		return medianOf(n), medianOf(s)
	}
	tokens1, seconds1 := at(short)
	tokens2, seconds2 := at(long)
	rate = (tokens2 - tokens1) / (seconds2 - seconds1)
	return rate, seconds1 - tokens1/rate
}

// Without noise both parts of TTFT are the server's own.
func TestPrefillAgainstTheSimulator(t *testing.T) {
	for name, lengths := range map[string]string{
		"mix": "{256: 1, 1024: 1, 2048: 1}", "ladder": "[256, 1024, 2048]",
	} {
		t.Run(name, func(t *testing.T) {
			testlab.Virtual(t, func(t *testing.T) {
				o := testlab.Brisk()
				o.FixedDelay = 15 * time.Millisecond
				w := testlab.NewWitness(t, o)
				l := lengthsLab(t, w.URL, lengths)
				for w.Requests() < 24 {
					l.times(1, "e")
				}
				p, all := l.page(), w.Records()
				rate, fixed := line(t, all, 256, 2048)
				for family, want := range map[string]float64{rateFamily: rate, fixedFamily: fixed} {
					got := intervalOf(t, p, family)
					logRelative(t, family, got.value, want)
					if math.Abs(got.value-want) > 0.001*want || got.lower > got.value || got.upper < got.value {
						t.Errorf("%s: %+v, want %v", family, got, want)
					}
				}
				logRelative(t, "the server's rate and its options", rate, o.PrefillTokensPerSecond)
				logRelative(t, "the server's fixed part and its options", fixed, (o.FixedDelay + o.DecodeStep).Seconds())
				checkRungs(t, p, all, name == "ladder")
			})
		})
	}
}

// checkRungs compares the labels of a ladder, which a mix has not, with the
// lengths that the server saw.
func checkRungs(t *testing.T, p metricsPage, all []simulator.Record, ladder bool) {
	t.Helper()
	const prompts = "inference_probe_prompt_tokens_total"
	for _, m := range p[prompts].GetMetric() {
		labelled := false
		for _, l := range m.GetLabel() {
			labelled = labelled || l.GetName() == "input_tokens"
		}
		if labelled != ladder {
			t.Errorf("labels %v", m.GetLabel())
		}
	}
	if !ladder {
		return
	}
	for _, length := range []int{256, 1024, 2048} {
		want, n := 0, 0
		for i := range all {
			if off := float64(all[i].PromptTokens) / float64(length); off > 0.7 && off < 1.4 {
				want += all[i].PromptTokens
				n++
			}
		}
		label := strconv.Itoa(length)
		if got := p.Sum(prompts, "input_tokens", label); got != float64(want) {
			t.Errorf("%v prompt tokens of %d, the server read %d", got, length, want)
		}
		if got := p.Sum("inference_probe_results_total", "input_tokens", label, "outcome", "success"); got != float64(n) {
			t.Errorf("%v probes of %d tokens, the server had %d", got, length, n)
		}
	}
}

// With noise of 10 % the bounds say how far off the figures may be.
func TestPrefillBoundsWithNoise(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Brisk()
		o.FixedDelay, o.PrefillNoise = 15*time.Millisecond, 0.1
		w := testlab.NewWitness(t, o)
		l := lengthsLab(t, w.URL, "{256: 1, 2560: 1}")
		p := l.times(35, "e")
		for family, want := range map[string]float64{rateFamily: o.PrefillTokensPerSecond, fixedFamily: (o.FixedDelay + o.DecodeStep).Seconds()} {
			got := intervalOf(t, p, family)
			logRelative(t, family, got.value, want)
			if !got.encloses(want, 2) {
				t.Errorf("%s: %+v, true is %v", family, got, want)
			}
			if got.upper-got.lower > 0.5*got.value {
				t.Errorf("%s: %+v, bounds that say nothing", family, got)
			}
		}
	})
}

// One length says nothing of how TTFT grows, and its own rate is not published.
func TestNoPrefillOfOneLength(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, testlab.Brisk())
		l := lengthsLab(t, w.URL, "512")
		p := l.times(25, "e")
		if p.Has(rateFamily) || p.Has(fixedFamily) {
			t.Errorf("a prefill rate of one length: %v", p[rateFamily])
		}
		if p.Sum("inference_probe_ttft_seconds") == 0 {
			t.Error("no probe succeeded")
		}
	})
}

// Where a queue of others takes longer than the prompt, no rate is known.
func TestNoPrefillInAQueue(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Brisk()
		o.DecodeStep, o.Slots = 2*time.Millisecond, 2
		o.Background, o.BackgroundInput, o.BackgroundOutput = 6, 256, 4
		s := simulator.New(o)
		url, stop := testlab.ServeSimulator(t, s)
		defer stop() // its goroutines come and go
		l := lengthsLab(t, url, "{64: 1, 1024: 1}")
		p := l.times(25, "e")
		if !p.Has(rateFamily) {
			return
		}
		if got := intervalOf(t, p, rateFamily); got.upper-got.lower < 0.2*got.value {
			t.Errorf("%+v tokens/s of a server whose queue decides", got)
		}
	})
}

// A length that the model has no room for is not asked at all, and says so.
func TestLengthBeyondTheContext(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		const rounds = 3
		o := testlab.Brisk()
		o.ContextLength = 2048
		w := testlab.NewWitness(t, o)
		l := lengthsLab(t, w.URL, "[500, 4000]")
		p := l.times(rounds, "e")
		const skipped = "inference_probe_skipped_total"
		for length, want := range map[string]float64{"500": 0, "4000": rounds} {
			if got := p.Sum(skipped, "input_tokens", length, "reason", "context_length"); got != want {
				t.Errorf("%v runs of %s tokens were left out for want of room, want %v", got, length, want)
			}
			if got := p.Sum("inference_probe_results_total", "input_tokens", length); got != rounds-want {
				t.Errorf("%v results of %s tokens, want %v", got, length, rounds-want)
			}
		}
		all := w.Records()
		for i := range all {
			if all[i].PromptTokens > 1000 || all[i].PromptTokens == 0 {
				t.Errorf("a prompt of %d tokens reached the server", all[i].PromptTokens)
			}
		}
		if len(all) != rounds {
			t.Errorf("%d requests, want %d", len(all), rounds)
		}
	})
}

// A prompt that the server truncates is no success of its length: it counts under a
// reason of its own and is paid for, and is not sent again at once.
func TestTruncatedPrompts(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		l := workLab(t, fmt.Sprintf(`
modules: {ladder: {input_tokens: [500, 8000], output_tokens: 4, interval: 1m}}
endpoints:
  - {name: e, url: %q, api: openai-chat, model: m, modules: [ladder], price: {input_usd: 1}, budget: {tokens_per_hour: 100000}}`, testlab.Truncating(t)))
		p := l.times(3, "e")
		for length, want := range map[string]struct{ successes, skips, tokens float64 }{"500": {3, 0, 1417}, "8000": {0, 3, 8192}} { // 417 + 2 x 500, 2 x 4096
			with := []string{"input_tokens", length}
			got := []float64{
				p.Sum("inference_probe_results_total", with...), p.Sum("inference_probe_success", with...),
				p.Sum(skippedFamily, append(with, "reason", "prompt_truncated")...),
				p.Sum("inference_probe_prompt_tokens_total", with...), p.Sum(costFamily, append(with, "kind", "input")...) * 1e6,
			}
			if wanted := []float64{want.successes, min(1, want.successes), want.skips, want.tokens, want.tokens}; !near(got, wanted) {
				t.Errorf("%s tokens: successes, the last one, skips, tokens and cost are %v, want %v", length, got, wanted)
			}
		}
		detail, _ := l.Board.Detail("e")
		said := slices.DeleteFunc(slices.Clone(detail.Changes), func(c status.Change) bool { return !strings.Contains(c.Text, "not probing: ") })
		if len(said) != 2 || !strings.Contains(said[0].Text, "the server truncates prompts: it counts 4096 tokens of one of 4444 words") {
			t.Errorf("the status page shows %+v, want two changes", said)
		}
		// Of 6667 words no tokenizer makes fewer than 4270 tokens. Each answer has one.
		if got, least := p.Sum("inference_endpoint_budget_used_ratio"), (1417+4270+4096+5.)/100_000; got < least || got > least+0.001 {
			t.Errorf("%v of the budget is used, want %v", got, least)
		}
	})
}

// near reports whether numbers are those wanted, except for rounding.
func near(got, want []float64) bool {
	return slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
}

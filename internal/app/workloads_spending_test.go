package app

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
)

const (
	costFamily    = "inference_probe_cost_usd_total"
	skippedFamily = "inference_probe_skipped_total"
)

// tokens is what the requests of probes took from the server, prompts and answers
// together.
func (w *witness) tokens() (sum int) {
	w.t.Helper()
	for _, r := range w.records() {
		sum += r.PromptTokens + r.OutputTokens
	}
	return sum
}

// What probes cost is the server's tokens at the configured prices.
func TestCostAgainstTheSimulator(t *testing.T) {
	t.Parallel()
	w := newWitness(t, swift())
	l := workLab(t, fmt.Sprintf(`
modules:
  pairs: {input_tokens: 600, output_tokens: 4, prefix: paired}
  ladder: {input_tokens: [100, 300], output_tokens: 6}
  burst: {input_tokens: 50, output_tokens: 3, concurrency: [1, 3]}
  questions: {questions: true, output_tokens: 32}
endpoints:
  - name: e
    url: %s
    modules: [pairs, ladder, burst, questions]
    price: {input_usd: 3, cached_input_usd: 0.3, output_usd: 15, gpu_hour_usd: 2.5, gpus: 4}`, w.url))
	p := l.times(4, "e")
	cached, uncached, output := 0, 0, 0
	for _, r := range w.records() {
		cached += r.CachedTokens
		uncached += r.UncachedTokens()
		output += r.OutputTokens
	}
	if cached == 0 {
		t.Error("the load has no hits")
	}
	for kind, want := range map[string]float64{
		"input": float64(uncached) * 3 / 1e6, "cached_input": float64(cached) * 0.3 / 1e6, "output": float64(output) * 15 / 1e6,
	} {
		if got := p.sum(costFamily, "kind", kind); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s has cost %v, want %v", kind, got, want)
		}
	}
	for kind, want := range map[string]float64{"input": 3e-6, "cached_input": 0.3e-6, "output": 15e-6} {
		if got := p.sum("inference_endpoint_price_usd_per_token", "kind", kind); math.Abs(got-want) > 1e-12 {
			t.Errorf("a token of %s costs %v, want %v", kind, got, want)
		}
	}
	if got := p.sum("inference_endpoint_price_usd_per_hour"); got != 10 {
		t.Errorf("an hour costs %v, want 10", got)
	}
}

// A budget is kept although the first prompts, whose length in tokens nobody
// knows yet, are longer than they should be.
func TestBudgetHoldsForTheFirstPrompts(t *testing.T) {
	t.Parallel()
	for budget := 2100; budget <= 3500; budget += 100 {
		w := newWitness(t, swift())
		l := workLab(t, fmt.Sprintf(`
modules: {long: {input_tokens: 2000, output_tokens: 4}}
endpoints: [{name: e, url: %s, api: openai-chat, modules: [long], budget: {tokens_per_hour: %d}}]`, w.url, budget))
		p := l.times(2, "e")
		if spent := w.tokens(); spent > budget {
			t.Errorf("%d tokens of a budget of %d", spent, budget)
		}
		const used = "inference_endpoint_budget_used_ratio"
		if got, want := p.sum(used, "resource", "tokens"), float64(w.tokens())/float64(budget); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v of the budget is used, want %v", got, want)
		}
	}
}

// However many modules run at once, a budget is not exceeded, and what does not
// run for it is counted.
func TestBudgetsUnderLoad(t *testing.T) {
	const price = ", price: {input_usd: 1, output_usd: 1}" // a token costs 1e-6
	for name, tc := range map[string]struct {
		global, endpoint string
		tokens           int  // of the budget
		all              bool // the budget is for both endpoints
		used, resource   string
	}{
		"tokens of an endpoint": {"", ", budget: {tokens_per_hour: 6000}", 6000, false, "inference_endpoint_budget_used_ratio", "tokens"},
		"money of an endpoint":  {"", ", budget: {usd_per_day: 0.006}" + price, 6000, false, "inference_endpoint_budget_used_ratio", "usd"},
		"tokens of all":         {", budget: {tokens_per_hour: 6000}", "", 6000, true, "inference_exporter_budget_used_ratio", "tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := newWitness(t, swift()), newWitness(t, swift())
			p := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.server", "--no-collector.gpu",
				"--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 100ms, timeout: 10s%[1]s}
modules:
  short: {input_tokens: 50, output_tokens: 10}
  long: {input_tokens: 400, output_tokens: 10}
  pairs: {input_tokens: 200, output_tokens: 2, prefix: paired}
  burst: {input_tokens: 40, output_tokens: 4, concurrency: [1, 4]}
endpoints:
  - {name: first, url: %[3]s, api: openai-chat, modules: [short, long, pairs, burst]%[2]s}
  - {name: second, url: %[4]s, api: openai-chat, modules: [short, long]%[2]s}`, tc.global, tc.endpoint, first.url, second.url)))
			labels := []string{"resource", tc.resource}
			if !tc.all {
				labels = append(labels, "endpoint", "first")
			}
			// The short one is the last that finds room. A run in flight holds more
			// than it spends, so the page is right when none is.
			spent := 0
			got, _ := p.waitFor("a budget that is used up, as the server says", func(got page) bool {
				if spent = first.tokens(); tc.all {
					spent += second.tokens()
				}
				if spent > tc.tokens {
					t.Fatalf("%d tokens of a budget of %d", spent, tc.tokens)
				}
				return math.Abs(got.sum(tc.used, labels...)-float64(spent)/float64(tc.tokens)) < 1e-6 &&
					got.sum(skippedFamily, "reason", "budget", "endpoint", "first", "module", "short") > 1
			})
			if spent < tc.tokens*8/10 {
				t.Errorf("only %d tokens of a budget of %d", spent, tc.tokens)
			}
			for _, module := range []string{"long", "pairs", "burst"} {
				if got.sum(skippedFamily, "reason", "budget", "endpoint", "first", "module", module) == 0 {
					t.Errorf("no run of %s was left out", module)
				}
			}
			before := first.requests()
			resp, body := p.get("/probe?target=first&module=long")
			if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "budget") {
				t.Errorf("a probe on request: %s: %s", resp.Status, body)
			}
			if first.requests() != before {
				t.Error("it was sent although there is no budget for it")
			}
		})
	}
}

// A probe on request of another URL is under the budget of all. It has none of
// its own, and lifts that of no endpoint, though its name may be the same.
func TestBudgetAndProbesOnRequest(t *testing.T) {
	w := newWitness(t, swift())
	host := strings.TrimPrefix(w.url, "http://")
	p := startIdle(t, fmt.Sprintf(`
modules: {interactive: {input_tokens: 64, output_tokens: 4}}
probe: {allow: [%[1]q]}
endpoints: [{url: "http://%[1]s", api: openai-chat, budget: {tokens_per_hour: 170}}]
`, host))
	for _, step := range []struct {
		path string
		want int
	}{{"", http.StatusOK}, {"", http.StatusServiceUnavailable}, {"/v1", http.StatusOK}} {
		if status, body := p.probePage("target", w.url+step.path); status != step.want {
			t.Errorf("target %s: status %d, want %d: %s", step.path, status, step.want, body)
		}
	}
	spent := w.records()[0]
	_, body := p.get("/metrics")
	const used = "inference_endpoint_budget_used_ratio"
	want := float64(spent.PromptTokens+spent.OutputTokens) / 170
	if got := parsePage(t, body); math.Abs(got.sum(used)-want) > 1e-9 {
		t.Errorf("%v of the budget is used, want %v", got.sum(used), want)
	}
}

// What could never run is a mistake of the configuration: a first prompt may be
// half as long again, and texts come in batches.
func TestBudgetTooSmallForOneRun(t *testing.T) {
	for _, tc := range []struct {
		endpoint, want string
	}{
		{"api: openai-chat, modules: [long], budget: {tokens_per_hour: 3000}", "module \"long\": one run may take 3068 tokens"},
		{"api: openai-chat, modules: [long], budget: {tokens_per_hour: 3100}", ""},
		{"api: openai-embeddings, modules: [embedding], budget: {tokens_per_hour: 3600}", ""},
		{"api: openai-embeddings, modules: [embedding], budget: {tokens_per_hour: 3500}", "module \"embedding\": one run may take 3584 tokens"},
		{"api: openai-chat, modules: [long], budget: {usd_per_day: 0.003}, price: {input_usd: 1, output_usd: 1}", "module \"long\": one run may cost $0.0031"},
	} {
		name := writeFile(t, "exporter.yml", fmt.Sprintf(`
modules: {long: {input_tokens: 2000, output_tokens: 4}}
endpoints: [{url: "http://h", %s}]`, tc.endpoint))
		got := runToEnd(t, "check", "--config.file="+name)
		if tc.want == "" && got.code != cli.ExitOK || tc.want != "" && !strings.Contains(got.stderr, tc.want) {
			t.Errorf("%s: exit code %d, want %q: %s", tc.endpoint, got.code, tc.want, got.stderr)
		}
	}
}

// What a server counts is worth no more than what was sent to it: neither the counters
// nor the cost of its endpoint, nor the budget of the others, take more. The healthy
// endpoint misses no run, whatever the other one spends.
func TestHostileCounts(t *testing.T) {
	t.Parallel()
	const runs, sent = 25, 1280 + 250 // bytes of 213 words with the body around them
	for _, told := range []int{0, 1, 2400, 99_999_999, 100_000_001, math.MaxInt} {
		w := newWitness(t, swift())
		l := workLab(t, fmt.Sprintf(`
global: {budget: {tokens_per_hour: 40000, usd_per_day: 0.04}}
modules: {chat: {input_tokens: 256, output_tokens: 4, interval: 1m}}
endpoints:
  - {name: hostile, url: %q, api: openai-chat, model: m, modules: [chat], price: {input_usd: 1, output_usd: 1}}
  - {name: healthy, url: %q, api: openai-chat, modules: [chat], price: {input_usd: 1, output_usd: 1}}`,
			counts(t, func(int) int { return told }), w.url))
		l.times(3*runs, "hostile")
		p := l.times(runs, "healthy")
		if got := p.sum(skippedFamily, "endpoint", "healthy"); got != 0 || w.requests() != runs {
			t.Errorf("%d told: %v runs of the healthy endpoint were left out, %d made", told, got, w.requests())
		}
		results := p.sum("inference_probe_results_total", "endpoint", "hostile")
		for family, per := range map[string]float64{"inference_probe_prompt_tokens_total": 1, costFamily: 1e6} {
			if got := p.sum(family, "endpoint", "hostile") * per; got < 0 || got > results*(sent+1024+4) {
				t.Errorf("%d told: %s is %v after %v probes", told, family, got, results)
			}
		}
		if used := p.sum("inference_probe_results_total", "endpoint", "hostile"); used < 10 {
			t.Errorf("%d told: %v probes of the hostile endpoint", told, used)
		}
	}
}

// A server that counts one token of each prompt spends a budget all the same: a token of
// prose has fewer than nine bytes.
func TestBudgetDoesNotTrustSmallCounts(t *testing.T) {
	s := newSpending(&config.Endpoint{}, &config.Module{InputTokens: config.Tokens(8000), OutputTokens: config.Tokens(1)}, nil)
	for _, tc := range []struct{ told, bytes, want int }{
		{1, 38_600, 38_600/9 + 1},
		{7000, 38_600, 7001},
		{-1, 38_600, 12_065}, // the most: 1.5 x 8000 + 64 + 1
	} {
		r := &result.Result{Sent: time.Now(), Status: http.StatusOK, PromptBytes: tc.bytes, Tokens: result.Tokens{Prompt: tc.told, Cached: -1, Output: 1}}
		if got := spentBy(r, nil, s.request()).Tokens; got != tc.want {
			t.Errorf("%d told of %d bytes: %d tokens are spent, want %d", tc.told, tc.bytes, got, tc.want)
		}
	}
}

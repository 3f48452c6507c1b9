package app

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

const skippedFamily = "inference_probe_skipped_total"

// However many modules run at once, a budget is not exceeded, and what does not
// run for it is counted.
func TestBudgetsUnderLoad(t *testing.T) {
	t.Parallel()
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
			first, second := testlab.NewWitness(t, testlab.Swift()), testlab.NewWitness(t, testlab.Swift())
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
  - {name: second, url: %[4]s, api: openai-chat, modules: [short, long]%[2]s}`, tc.global, tc.endpoint, first.URL, second.URL)))
			labels := []string{"resource", tc.resource}
			if !tc.all {
				labels = append(labels, "endpoint", "first")
			}
			// The short one is the last that finds room. A run in flight holds more
			// than it spends, so the page is right when none is.
			spent := 0
			got, _ := p.waitFor("a budget that is used up, as the server says", func(got metricsPage) bool {
				if spent = first.Tokens(); tc.all {
					spent += second.Tokens()
				}
				if spent > tc.tokens {
					t.Fatalf("%d tokens of a budget of %d", spent, tc.tokens)
				}
				return math.Abs(got.Sum(tc.used, labels...)-float64(spent)/float64(tc.tokens)) < 1e-6 &&
					got.Sum(skippedFamily, "reason", "budget", "endpoint", "first", "module", "short") > 1
			})
			if spent < tc.tokens*8/10 {
				t.Errorf("only %d tokens of a budget of %d", spent, tc.tokens)
			}
			for _, module := range []string{"long", "pairs", "burst"} {
				if got.Sum(skippedFamily, "reason", "budget", "endpoint", "first", "module", module) == 0 {
					t.Errorf("no run of %s was left out", module)
				}
			}
			before := first.Requests()
			resp, body := p.get("/probe?target=first&module=long")
			if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "budget") {
				t.Errorf("a probe on request: %s: %s", resp.Status, body)
			}
			if first.Requests() != before {
				t.Error("it was sent although there is no budget for it")
			}
		})
	}
}

// A probe on request of another URL is under the budget of all. It has none of
// its own, and lifts that of no endpoint, though its name may be the same.
func TestBudgetAndProbesOnRequest(t *testing.T) {
	t.Parallel()
	w := testlab.NewWitness(t, testlab.Swift())
	host := strings.TrimPrefix(w.URL, "http://")
	p := startIdle(t, fmt.Sprintf(`
modules: {interactive: {input_tokens: 64, output_tokens: 4}}
probe: {allow: [%[1]q]}
endpoints: [{url: "http://%[1]s", api: openai-chat, budget: {tokens_per_hour: 170}}]
`, host))
	for _, step := range []struct {
		path string
		want int
	}{{"", http.StatusOK}, {"", http.StatusServiceUnavailable}, {"/v1", http.StatusOK}} {
		if status, body := p.probePage("target", w.URL+step.path); status != step.want {
			t.Errorf("target %s: status %d, want %d: %s", step.path, status, step.want, body)
		}
	}
	spent := w.Records()[0]
	_, body := p.get("/metrics")
	const used = "inference_endpoint_budget_used_ratio"
	want := float64(spent.PromptTokens+spent.OutputTokens) / 170
	if got := testlab.ParsePage(t, body); math.Abs(got.Sum(used)-want) > 1e-9 {
		t.Errorf("%v of the budget is used, want %v", got.Sum(used), want)
	}
}

// What could never run is a mistake of the configuration: a first prompt may be
// half as long again, and texts come in batches.
func TestBudgetTooSmallForOneRun(t *testing.T) {
	t.Parallel()
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

// The check refuses what its share never has room for, unless the rest has.
func TestCheckOfShares(t *testing.T) {
	f := func(budget, want string) {
		t.Helper()
		file := writeFile(t, "exporter.yml", `global: {budget: {`+budget+`}}
modules: {small: {input_tokens: 100, output_tokens: 10, interval: 1m}, large: {input_tokens: 20000, output_tokens: 10, interval: 1h}}
endpoints: [{url: "http://a", modules: [small, large]}, {url: "http://b", modules: [small]}, {url: "http://c", modules: [small]}]
`)
		got := runToEnd(t, "check", "--config.file="+file)
		if want == "" && got.code != cli.ExitOK || want != "" && (got.code != cli.ExitUsage || !strings.Contains(got.stderr, want)) {
			t.Errorf("%s: exit code %d, %s%s, want %q", budget, got.code, got.stdout, got.stderr, want)
		}
	}
	// A large run is 1.5 x 20000 + 64 + 10 tokens, and 62 small ones in an hour are
	// 13888: the first endpoint has what two of those leave.
	f("tokens_per_hour: 57849", `module "large": one run may take 30074 tokens, more than the 30073 per hour that its share of global.budget allows`)
	f("tokens_per_hour: 57850", "")
	f("tokens_per_hour: 30073", "more than the 30073 per hour that global.budget allows")
}

func TestProbeOfATruncatingServer(t *testing.T) {
	t.Parallel()
	got := runToEnd(t, "probe", testlab.Truncating(t), "--api=openai-chat", "--model=m", "--module=agent")
	if got.code != cli.ExitFailure || !strings.Contains(got.stderr, "the server truncates prompts: it counts 4096 tokens") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	if !strings.Contains(got.stdout, "not measured") || strings.Contains(got.stdout, "success") {
		t.Errorf("output:\n%s", got.stdout)
	}
}

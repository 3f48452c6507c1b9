package report

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

// loadFinding is a load test of four levels, of which the third misses its objective and the fourth was cut short.
func loadFinding() *loadtest.Finding {
	q := func(value, lower, upper float64) loadtest.Quantile {
		return loadtest.Quantile{Value: value, Lower: lower, Upper: upper}
	}
	return &loadtest.Finding{
		End: loadtest.UsersWaiting, Text: "2 requests of users wait", Kind: config.LoadUsers, Target: 50,
		TTFT: 0.5, TPOT: 0.05,
		Levels: []loadtest.Level{
			{
				Level: 1, Complete: true, Seconds: 18, Requests: 14, InFlight: 0.998, Goodput: new(1.0), OutputTokensPerSecond: 49.2,
				TTFT:    loadtest.Quantiles{P50: q(0.0568, 0.055, 0.0612), P90: q(0.0701, 0.0612, 0), P99: q(0.0702, 0.07, 0)},
				TPOT:    loadtest.Quantiles{P50: q(0.02, 0.0199, 0.0201), P99: q(0.0203, 0.02, 0)},
				Verdict: loadtest.Undecided, Confidence: 0.131,
			},
			{
				Level: 10, Complete: true, Seconds: 108, Requests: 800, InFlight: 9.96, Goodput: new(0.995), OutputTokensPerSecond: 480, OutputTokensPerSecondPerGPU: 240,
				USDPerMillionOutputTokens: 2.31,
				TTFT:                      loadtest.Quantiles{P50: q(0.101, 0.0991, 0.104), P90: q(0.201, 0.19, 0.22), P99: q(0.31, 0.29, 0.42)},
				TPOT:                      loadtest.Quantiles{P50: q(0.021, 0.0209, 0.0211), P99: q(0.0303, 0.03, 0.0311)},
				Verdict:                   loadtest.Met, Confidence: 0.997,
			},
			{
				Level: 50, Complete: true, Seconds: 108, Requests: 3000, Failed: 12, Late: 3, InFlight: 49.6, Goodput: new(0.81), OutputTokensPerSecond: 1490,
				OutputTokensPerSecondPerGPU: 745, USDPerMillionOutputTokens: 0.745,
				TTFT:    loadtest.Quantiles{P50: q(0.301, 0.2991, 0.304), P90: q(0.98, 0.95, 1.01), P99: q(1.31, 1.29, 1.42)},
				TPOT:    loadtest.Quantiles{P50: q(0.031, 0.0309, 0.0311), P99: q(0.0503, 0.05, 0.0611)},
				Verdict: loadtest.Missed, Confidence: 0,
			},
			{Level: 100},
		},
		MaxGood: &loadtest.Capacity{Level: 10, InFlight: 9.96, Confidence: 0.997},
		Knee:    &loadtest.Capacity{Level: 50, InFlight: 49.6},
	}
}

// TestLoad holds the report to lines that follow from the finding. The longest bar is the upper bound of 1.42 s: 310 ms are
// 52·0.31/1.42 = 11 of its columns.
func TestLoad(t *testing.T) {
	var b strings.Builder
	target := result.Target{Endpoint: "llama-prod", URL: "http://vllm:8000", Module: "interactive"}
	if err := Load(&b, target, loadFinding(), Options{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for _, want := range []string{
		"users waiting: llama-prod (http://vllm:8000)",
		"  reason       2 requests of users wait",
		"  p99 at most  TTFT 500 ms, TPOT 50.0 ms",
		"  target       50 users: missed",
		"  largest good load: 10 users meet the objectives, with 99.7 % confidence",
		"  knee under load: 50 users miss the objectives",
		"    users requests failed  late in flight  goodput tokens/s  per GPU   $ / 1M",
		"       50     3000     12     3      49.6     81 %     1490      745     0.74",
		"      100        0      0     0         -        -        -        -        -",
		"        1    56.8 (55.0-61.2) ms       70.1 (61.2-?) ms       70.2 (70.0-?) ms",
		"       50       301 (299-304) ms    980 (950-1.01 s) ms     1.31 (1.29-1.42) s",
		"       10    21.0 (20.9-21.1) ms    30.3 (30.0-31.1) ms       met, 99.7 % sure",
		"       50    31.0 (30.9-31.1) ms    50.3 (50.0-61.1) ms                 missed",
		"      100                      -                      -              cut short",
		"99th percentile of TTFT (#), its upper bound (-), the objective of 500 ms (|)",
		"       10 ###########----   |                                      310 ms",
		"       50 ##################|#############################----     1.31 s",
		"       50 ####################################################       1490",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > Width {
			t.Errorf("longer than %d columns: %q", Width, line)
		}
	}
}

// TestLoadWithout has no objectives, and nothing that was measured.
func TestLoadWithout(t *testing.T) {
	for want, f := range map[string]*loadtest.Finding{
		"no room: e ()\n  reason       3 requests wait\n  asked        module m\n" +
			"  p99 at most  no objective: --slo.ttft and --slo.tpot set them\n  target       2 requests/s: no verdict\n": {
			End: loadtest.NoRoom, Text: "3 requests wait", Kind: config.LoadRate, Target: 2,
		},
		"completed: e ()\n  asked        module m\n  p99 at most  TTFT 1.00 s\n  target       2 × the trace: no verdict\n": {
			End: loadtest.Completed, Kind: config.LoadTrace, Target: 2, TTFT: 1,
		},
	} {
		var b strings.Builder
		if err := Load(&b, result.Target{Endpoint: "e", Module: "m"}, f, Options{}); err != nil || b.String() != want {
			t.Errorf("%v, got %q, want %q", err, b.String(), want)
		}
	}
}

// A quantile has as many bounds in its text as are known.
func TestQuantileText(t *testing.T) {
	for want, q := range map[string]loadtest.Quantile{
		"-":                {},
		"120 ms":           {Value: 0.12},
		"over 110 ms":      {Lower: 0.11},
		"120 (110-?) ms":   {Value: 0.12, Lower: 0.11},
		"120 (110-131) ms": {Value: 0.12, Lower: 0.11, Upper: 0.131},
	} {
		if got := quantile(q); got != want {
			t.Errorf("%v: %q, want %q", q, got, want)
		}
	}
}

package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/compare"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// TestProbeAgainstABaseline stores a baseline, passes the same server by it and blocks one
// that takes 30 % longer for each token.
func TestProbeAgainstABaseline(t *testing.T) {
	before := testlab.Serve(t, simulator.New(paced(10*time.Millisecond)).Handler())
	slower := testlab.Serve(t, simulator.New(paced(13*time.Millisecond)).Handler())
	config := writeFile(t, "exporter.yml", "modules: {short: {input_tokens: 32, output_tokens: 12}}\nendpoints: [{name: llama, url: '"+before+"'}]\n")
	file := filepath.Join(t.TempDir(), "llama.json")
	args := []string{"probe", "--config.file=" + config, "--module=short"}

	got := runToEnd(t, append(args, "llama", "-n", "40", "--save-baseline="+file)...)
	if got.code != cli.ExitOK || got.stderr != "" || !strings.HasPrefix(got.stdout, "40 of 40 probes succeeded") {
		t.Fatalf("exit code %d, stderr %q, stdout:\n%s", got.code, got.stderr, got.stdout)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := compare.ReadBaseline(text)
	if err != nil || stored.Endpoint != "llama" || stored.URL != before || stored.Module != "short" || len(stored.Runs) != 40 || !slices.ContainsFunc(stored.Runs, func(f compare.Figures) bool { return f.TTFT > 0 }) {
		t.Fatalf("%v: %+v", err, stored)
	}

	args = append(args, "--baseline="+file, "--ttft-margin=9")
	got, d := untilDecided(t, append(args, slower)...)
	if got.code != cli.ExitFailure || d.Comparison.Verdict != compare.Regression || d.Comparison.Baseline.Endpoint != "llama" {
		t.Errorf("exit code %d, %+v", got.code, d)
	}
	got = runToEnd(t, append(args, "llama", "--tpot-margin=9", "--failures-margin=0.3", "--answers-margin=0.3")...)
	if got.code != cli.ExitOK || got.stderr != "" || !strings.HasPrefix(got.stdout, "pass after ") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", got.code, got.stderr, got.stdout)
	}
	got = runToEnd(t, append(args, "llama", "-n", "10", "-o", "junit")...)
	if got.code != cli.ExitUndecided || !strings.HasPrefix(got.stderr, "inference_exporter: undecided after 10 pairs") || !strings.Contains(got.stdout, "<testsuite ") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", got.code, got.stderr, got.stdout)
	}
}

func TestBaselineUsage(t *testing.T) {
	f := func(pattern string, args ...string) {
		t.Helper()
		refused(t, cli.ExitUsage, []string{pattern}, append([]string{"probe", "http://127.0.0.1:9"}, args...)...)
	}
	run := `{"requests":1,"failed":0,"ttft_seconds":0.2}`
	file := func(runs int) string {
		return writeFile(t, "b.json", `{"version":1,"endpoint":"llama","url":"http://h","module":"interactive","runs":[`+strings.Repeat(run+",", runs-1)+run+`]}`)
	}
	f(`inference_exporter: --save-baseline and --baseline are mutually exclusive`, "--save-baseline=a", "--baseline=b")
	f(`inference_exporter: --save-baseline: want --count of at least 10`, "--save-baseline=a", "-n", "9")
	f(`inference_exporter: --baseline: open nowhere.json: .*`, "--baseline=nowhere.json")
	f(`inference_exporter: --baseline=\S+: baseline has version 2, want 1`, "--baseline="+writeFile(t, "b.json", `{"version":2}`))
	f(`inference_exporter: --baseline=\S+: measured with the module "interactive": want --module=interactive`, "--baseline="+file(20), "--module=rag")
	f(`inference_exporter: --baseline=\S+: 9 runs, want at least 10`, "--baseline="+file(9))
	f(`inference_exporter: --count=21: want 10 to 20, the runs of the baseline`, "--baseline="+file(20), "-n", "21")
	f(`inference_exporter: --tpot-margin=-1: want .*`, "--baseline="+file(20), "--tpot-margin=-1")
	f(`inference_exporter: --output=junit: only with --baseline`, "-o", "junit")
}

// What cannot be written is no success, and neither is a run that asked nothing.
func TestBaselineThatIsNotSaved(t *testing.T) {
	t.Parallel()
	o := testlab.Quick()
	server := testlab.Serve(t, simulator.New(o).Handler())
	got := runToEnd(t, "probe", server, "-n", "10", "--save-baseline="+t.TempDir())
	if got.code != cli.ExitFailure || !strings.HasPrefix(got.stderr, "inference_exporter: save the baseline: ") {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
	o.ContextLength = 128
	small := testlab.Serve(t, simulator.New(o).Handler())
	file := filepath.Join(t.TempDir(), "b.json")
	got = runToEnd(t, "probe", small, "-n", "10", "--save-baseline="+file)
	if _, err := os.Stat(file); got.code != cli.ExitFailure || err == nil || got.stderr != "inference_exporter: baseline not saved: only 0 of 10 runs measured anything\n" {
		t.Errorf("exit code %d, stderr %q, %v", got.code, got.stderr, err)
	}
}

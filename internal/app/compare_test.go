package app

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/compare"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// comparison is what the JSON of a comparison must have.
type comparison struct {
	Comparison struct {
		Verdict    compare.Verdict
		Module     string
		Pairs      int
		Baseline   comparedSide
		Candidate  comparedSide
		Quantities []struct {
			Quantity  compare.Quantity
			Verdict   compare.Verdict
			Pairs     int
			Change    *float64
			Lower     *float64 `json:"change_lower"`
			Baseline  *float64
			Candidate *float64
		} `json:"quantities"`
	}
}

type comparedSide struct {
	Endpoint string
	Outcomes map[string]int
}

// paced is a server that takes a time of its own for each token.
func paced(step time.Duration) simulator.Options {
	o := testlab.Brisk()
	o.DecodeStep = step
	return o
}

// untilDecided runs the program until its comparison is decided, at most three times: on a
// machine that is busy with other tests, some are not.
func untilDecided(t *testing.T, args ...string) (ended, comparison) {
	t.Helper()
	var got ended
	var d comparison
	for range 3 {
		got = runToEnd(t, append(args, "-o", "json")...)
		if err := json.Unmarshal([]byte(got.stdout), &d); err != nil {
			t.Fatalf("%v: exit code %d, stderr %q, stdout:\n%s", err, got.code, got.stderr, got.stdout)
		}
		if d.Comparison.Verdict != compare.Undecided {
			break
		}
		t.Logf("%s: %+v", got.stderr, d)
	}
	return got, d
}

// TestCompareBlocksASlowerServer compares two servers of which one takes 30 % longer for
// each token. Neither is asked more than the other.
func TestCompareBlocksASlowerServer(t *testing.T) {
	stable, canary := testlab.NewWitness(t, paced(10*time.Millisecond)), testlab.NewWitness(t, paced(13*time.Millisecond))
	file := writeFile(t, "exporter.yml", fmt.Sprintf(`
modules:
  short: {input_tokens: 32, output_tokens: 12}
endpoints:
  - {name: stable, url: %q}
  - {name: canary, url: %q}
`, stable.URL, canary.URL))
	got, d := untilDecided(t, "compare", "--config.file="+file, "--module=short", "--ttft-margin=2", "-n", "60", "stable", "canary")
	c := d.Comparison
	if got.code != cli.ExitFailure || got.stderr != "inference_exporter: the candidate is worse than the baseline\n" ||
		c.Verdict != compare.Regression || c.Module != "short" || c.Baseline.Endpoint != "stable" || c.Candidate.Endpoint != "canary" {
		t.Errorf("exit code %d, stderr %q, %+v", got.code, got.stderr, c)
	}
	for _, q := range c.Quantities {
		if q.Quantity == compare.TPOT && (q.Verdict != compare.Regression || *q.Change < 0.1 || *q.Lower < 0.05) {
			t.Errorf("%+v", q)
		}
	}
	if a, b := len(stable.Records()), len(canary.Records()); a != b {
		t.Errorf("%d requests to one, %d to the other", a, b)
	}
}

func TestComparePassesAnEqualServer(t *testing.T) {
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	args := []string{"compare", server, server, "--ttft-margin=9", "--tpot-margin=9", "--failures-margin=0.3", "--answers-margin=0.3"}
	got := runToEnd(t, args...)
	if got.code != cli.ExitOK || got.stderr != "" || !strings.HasPrefix(got.stdout, "pass after ") || !strings.Contains(got.stdout, "wrong answers") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", got.code, got.stderr, got.stdout)
	}
}

func TestCompareThatDoesNotDecide(t *testing.T) {
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	down := server + "/fault/status_503"
	got := runToEnd(t, "compare", server, server, "-n", "10")
	if got.code != cli.ExitUndecided || !strings.HasPrefix(got.stderr, "inference_exporter: undecided after 10 pairs") || !strings.HasPrefix(got.stdout, "undecided after ") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", got.code, got.stderr, got.stdout)
	}
	got = runToEnd(t, "compare", down, down)
	if got.code != cli.ExitUndecided || got.stderr != "inference_exporter: no latency measured on both sides in 20 pairs\n" || !strings.Contains(got.stdout, "20 × overloaded") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", got.code, got.stderr, got.stdout)
	}
}

// A server that is down is blocked, and CI systems can read the report.
func TestCompareJUnit(t *testing.T) {
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	got := runToEnd(t, "compare", server, server+"/fault/status_503", "--output=junit")
	var suite struct {
		XMLName  xml.Name `xml:"testsuite"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Skipped  int      `xml:"skipped,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal([]byte(got.stdout), &suite); err != nil {
		t.Fatalf("%v:\n%s", err, got.stdout)
	}
	if got.code != cli.ExitFailure || suite.Tests != 5 || suite.Failures != 1 || suite.Skipped != 4 || len(suite.Cases) != 5 {
		t.Fatalf("exit code %d, %+v", got.code, suite)
	}
	if c := suite.Cases[3]; c.Name != "failures" || c.Failure == nil || !strings.HasPrefix(c.Failure.Message, "baseline 0 %, candidate 100 %, change +100.0 pp") {
		t.Errorf("%+v", suite.Cases)
	}
}

func TestCompareInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := simulator.New(testlab.Quick()).Handler()
	url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		server.ServeHTTP(w, r)
	}))
	var stdout, stderr bytes.Buffer
	code := Run(ctx, []string{"compare", url, url, "--api=openai-chat"}, Options{Stdout: &stdout, Stderr: &stderr})
	if code != cli.ExitUndecided || stdout.Len() > 0 || stderr.String() != "inference_exporter: interrupted\n" {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, &stderr, &stdout)
	}
}

func TestCompareUsage(t *testing.T) {
	f := func(pattern string, args ...string) {
		t.Helper()
		refused(t, cli.ExitUsage, []string{pattern}, append([]string{"compare"}, args...)...)
	}
	url := "http://127.0.0.1:9"
	f(`inference_exporter: required argument 'candidate' not provided, try inference_exporter compare --help`, url)
	f(`inference_exporter: candidate: the target is not a URL: .*`, url, "there")
	f(`inference_exporter: --max-pairs=9: want 10 to 1000, try .*`, url, url, "-n", "9")
	f(`inference_exporter: --interval=-1s: want at least 0s, try .*`, url, url, "--interval=-1s")
	f(`inference_exporter: --timeout=0s: want more than 0s, try .*`, url, url, "--timeout=0s")
	f(`inference_exporter: --alpha=0.9: want .*`, url, url, "--alpha=0.9")
	f(`inference_exporter: --ttft-margin=0: want .*`, url, url, "--ttft-margin=0")
	f(`inference_exporter: --failures-margin=1: want .*`, url, url, "--failures-margin=1")
	f(`inference_exporter: --output=xml: want one of text, json, junit, try inference_exporter compare --help`, url, url, "-o", "xml")
}

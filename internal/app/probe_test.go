package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

func TestProbeOnce(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Quick()
		server := testlab.Serve(t, simulator.New(o).Handler())
		file := writeFile(t, "exporter.yml", fmt.Sprintf(`
modules:
  interactive: {output_tokens: 4}
  tiny: {input_tokens: 32, output_tokens: 4, prefix: warm}
endpoints:
  - {name: good, url: %q}
  - {name: bad, url: %q}
  - {name: other-model, url: %q, model: something-else}
`, server, server+"/fault/status_503", server))
		f := func(code int, outcome result.Outcome, args ...string) string {
			t.Helper()
			got := runToEnd(t, append([]string{"probe"}, args...)...)
			stderr := ""
			if outcome != result.Success {
				stderr = fmt.Sprintf("inference_exporter: the probe ended as %s\n", outcome)
			}
			if got.code != code || got.stderr != stderr || !strings.HasPrefix(got.stdout, string(outcome)+" ") {
				t.Errorf("%q: exit code %d, stderr %q, stdout:\n%s", args, got.code, got.stderr, got.stdout)
			}
			if strings.Contains(got.stdout, "\x1b") {
				t.Errorf("%q: colours without a terminal", args)
			}
			return got.stdout
		}
		f(cli.ExitOK, result.Success, server)
		f(cli.ExitOK, result.Success, server+"/v1", "--timeout=30s")
		f(cli.ExitOK, result.Success, "--config.file="+file, server)
		f(cli.ExitOK, result.Success, "--config.file="+file, server+"/")
		f(cli.ExitOK, result.Success, "--config.file="+file, server+"/fault/no_usage", "--module=tiny") // not in the file
		f(cli.ExitFailure, result.Overloaded, server+"/fault/status_503")
		f(cli.ExitFailure, result.Overloaded, "--config.file="+file, "bad")
		f(cli.ExitFailure, result.HTTPError, server, "--model=no-such-model")
		f(cli.ExitFailure, result.HTTPError, "--config.file="+file, "other-model")
		f(cli.ExitOK, result.Success, "--config.file="+file, "other-model", "--model=simulated-8b")
		text := f(cli.ExitOK, result.Success, "--config.file="+file, "good", "--module=tiny", "--api=openai-completions")
		for _, want := range []string{
			": good (" + server + ")\n", "module tiny, api openai-completions", "prefix warm",
			"\nPhases\n", "\nTokens over time: 4 events", "4 tokens", "\n  TTFT ", "finish       length",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
	})
}

// Runs that ask nothing are no success, however many there are.
func TestProbeThatAsksNothing(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Quick()
		o.ContextLength = 128
		server := testlab.Serve(t, simulator.New(o).Handler())
		const reason = "the model has room for 128 tokens, prompt and answer together, fewer than the module asks for"
		f := func(stdout string, args ...string) {
			t.Helper()
			got := runToEnd(t, append([]string{"probe", server}, args...)...)
			if want := "inference_exporter: nothing was asked: " + reason + "\n"; got.code != cli.ExitFailure || got.stderr != want {
				t.Errorf("%q: exit code %d, stderr %q, want %q", args, got.code, got.stderr, want)
			}
			if !strings.Contains(got.stdout, stdout) {
				t.Errorf("%q: %q is not in\n%s", args, stdout, got.stdout)
			}
		}
		f("not asked")
		f("not asked", "-n", "1")
		f("3 × not asked", "-n", "3")
		f(`"skipped":3`, "-n", "3", "-o", "json")
	})
}

func TestProbeTimeout(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
		got := runToEnd(t, "probe", server+"/fault/stall_before_headers", "--timeout=100ms")
		if got.code != cli.ExitFailure || !strings.HasPrefix(got.stdout, "timeout_") || !strings.Contains(got.stdout, "100ms") {
			t.Errorf("exit code %d, stdout:\n%s", got.code, got.stdout)
		}
		m := &config.Module{
			Timeout: model.Duration(time.Minute), InputTokens: config.Tokens(7),
			Timeouts: config.Timeouts{Connect: 1e9, Headers: 10e9, FirstToken: 30e9, Stall: 5e9},
		}
		want := &config.Module{
			Timeout: 8e9, InputTokens: config.Tokens(7),
			Timeouts: config.Timeouts{Connect: 1e9, Headers: 8e9, FirstToken: 8e9, Stall: 5e9},
		}
		if diff := cmp.Diff(want, withTimeout(m, 8*time.Second)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if m.Timeout != model.Duration(time.Minute) {
			t.Error("the module itself was changed")
		}
	})
}

// document is what a line of the JSON output must have.
type document struct {
	Endpoint string         `json:"endpoint"`
	Module   string         `json:"module"`
	Outcome  result.Outcome `json:"outcome"`
	TTFT     float64        `json:"ttft_seconds"`
	Output   int            `json:"output_tokens"`
	Summary  *struct {
		Probes   int                    `json:"probes"`
		Outcomes map[result.Outcome]int `json:"outcomes"`
	} `json:"summary"`
}

// documents reads one from each line.
func documents(t *testing.T, text string) []document {
	t.Helper()
	var all []document
	for line := range strings.Lines(text) {
		var d document
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, d)
	}
	return all
}

func TestProbeJSON(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	got := runToEnd(t, "probe", server, "-o", "json")
	all := documents(t, got.stdout)
	if got.code != cli.ExitOK || len(all) != 1 {
		t.Fatalf("exit code %d, %d lines", got.code, len(all))
	}
	if d := all[0]; d.Outcome != result.Success || d.Module != "interactive" || !(d.TTFT > 0) || d.Output != 64 {
		t.Errorf("%+v", d)
	}
	got = runToEnd(t, "probe", server, "--output=json", "--count=3", "--interval=1ms")
	all = documents(t, got.stdout)
	if got.code != cli.ExitOK || len(all) != 4 || all[2].Outcome != result.Success || all[3].Summary == nil || all[3].Summary.Probes != 3 {
		t.Errorf("exit code %d, %+v", got.code, all)
	}
}

// TestProbePrompt checks that the text of the user is asked and the answer shown whole,
// whatever the module asks otherwise.
func TestProbePrompt(t *testing.T) {
	t.Parallel()
	const text = "Which \"colour\" has the sky?"
	s := simulator.New(testlab.Quick()).Handler()
	asked := make(chan string, 100)
	url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			var body struct {
				Messages []struct{ Content string }
			}
			data, err := io.ReadAll(r.Body)
			if err == nil {
				err = json.Unmarshal(data, &body)
			}
			if err != nil || len(body.Messages) != 1 {
				t.Errorf("request %s: %v", data, err)
				return
			}
			asked <- body.Messages[0].Content
			r.Body = io.NopCloser(bytes.NewReader(data))
		}
		s.ServeHTTP(w, r)
	}))
	for name, limit := range map[string]int{"interactive": 64, "tool-call": 256, "rag": 128} {
		got := runToEnd(t, "probe", url, "--prompt="+text, "--module="+name)
		_, answer, found := strings.Cut(got.stdout, "\nText of the answer\n")
		if got.code != cli.ExitOK || !found || !strings.HasPrefix(answer, "  zero one two three four five") {
			t.Errorf("%s: exit code %d, stderr %q:\n%s", name, got.code, got.stderr, got.stdout)
		}
		if words := len(strings.Fields(answer)); words > limit {
			t.Errorf("%s: %d words", name, words)
		}
		if got := <-asked; got != text {
			t.Errorf("%s: asked %q", name, got)
		}
	}
	got := runToEnd(t, "probe", url, "--prompt="+text, "-o", "json")
	var d struct {
		Answer result.Answer `json:"answer"`
	}
	if err := json.Unmarshal([]byte(got.stdout), &d); err != nil || !strings.HasPrefix(d.Answer.Text, "zero one two three") {
		t.Errorf("%v: answer %+v", err, d.Answer)
	}
	refused(t, cli.ExitUsage, []string{"inference_exporter: --prompt: an empty text"}, "probe", url, "--prompt=")
}

func TestProbeRepeated(t *testing.T) {
	t.Parallel()
	o := testlab.Quick()
	o.FaultRatio, o.Faults = 0.5, faultsNamed("status_503")
	half := testlab.Serve(t, simulator.New(o).Handler())
	got := runToEnd(t, "probe", half, "-n", "20", "-o", "json")
	all := documents(t, got.stdout)
	sum := all[len(all)-1].Summary
	if sum == nil || sum.Probes != 20 || sum.Outcomes[result.Success] == 0 || sum.Outcomes[result.Success]+sum.Outcomes[result.Overloaded] != 20 {
		t.Fatalf("summary %+v", sum)
	}
	want := fmt.Sprintf("inference_exporter: %d of 20 probes failed\n", sum.Outcomes[result.Overloaded])
	if got.code != cli.ExitFailure || got.stderr != want {
		t.Errorf("exit code %d, stderr %q, want %q", got.code, got.stderr, want)
	}

	good := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	got = runToEnd(t, "probe", good, "-n", "5")
	pattern := regexp.MustCompile(`(?s)^5 of 5 probes succeeded: .*\n  samples +5 +5 +5 +5 +5\n.*n < 299`)
	if got.code != cli.ExitOK || got.stderr != "" || !pattern.MatchString(got.stdout) {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", got.code, got.stderr, got.stdout)
	}
}

// cancelAfter cancels when it has seen so many lines.
type cancelAfter struct {
	bytes.Buffer
	lines  int
	cancel context.CancelFunc
}

func (c *cancelAfter) Write(b []byte) (int, error) {
	if c.lines -= bytes.Count(b, []byte("\n")); c.lines <= 0 {
		c.cancel()
	}
	return c.Buffer.Write(b)
}

func TestProbeInterrupted(t *testing.T) {
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	f := func(args ...string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		stdout := &cancelAfter{lines: 2, cancel: cancel}
		var stderr bytes.Buffer
		code := Run(ctx, append([]string{"probe", server, "-n", "1000", "-o", "json"}, args...), Options{Stdout: stdout, Stderr: &stderr})
		all := documents(t, stdout.String())
		if last := all[len(all)-1]; len(all) != 3 || last.Summary == nil || last.Summary.Probes != 2 || last.Summary.Outcomes[result.Success] != 2 {
			t.Errorf("%d lines:\n%s", len(all), stdout)
		}
		if code != cli.ExitFailure || stderr.String() != "inference_exporter: interrupted after 2 of 1000 probes\n" {
			t.Errorf("exit code %d, stderr %q", code, &stderr)
		}
	}
	f()
	f("--interval=1ms")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := Run(ctx, []string{"probe", server, "--api=openai-chat"}, Options{Stdout: &stdout, Stderr: &stderr}); code != cli.ExitFailure || !strings.HasPrefix(stdout.String(), "canceled") {
		t.Errorf("exit code %d, stdout:\n%s", code, &stdout)
	}
}

func TestProbeUsage(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "exporter.yml", "endpoints: [{name: here, url: 'http://127.0.0.1:9'}]\n")
	f := func(pattern string, args ...string) {
		t.Helper()
		refused(t, cli.ExitUsage, []string{pattern}, append([]string{"probe"}, args...)...)
	}
	url := "http://127.0.0.1:9"
	f(`inference_exporter: required argument 'target' not provided, try inference_exporter probe --help`)
	f(`inference_exporter: the target is not a URL: .*`, "here")
	f(`inference_exporter: target: want a URL that begins with http:// or https://`, "ftp://127.0.0.1")
	f(`inference_exporter: no endpoint named "[^"]+" in \S+, and it is not a URL`, "prod-eu", "--config.file="+file)
	f(`inference_exporter: no endpoint named "[^"]+" in \S+, and it is not a URL; discovered endpoints have names in the running exporter alone.*`, "a:1",
		"--config.file="+writeFile(t, "discovery.yml", "discovery: [{static_configs: [{targets: ['a:1']}]}]"))
	f(`inference_exporter: target: a user or password in the URL; .*`, "http://me:hunter2@127.0.0.1:9", "--config.file="+file)
	f(`inference_exporter: read configuration: .*`, "here", "--config.file=nowhere.yml")
	f(`inference_exporter: unknown module "fast"; known: agent, batch, code-completion, embedding, interactive, long-context, rag, structured, tool-call`, url, "--module=fast")
	f(`inference_exporter: unknown module "interctive"; did you mean "interactive"\?`, url, "--module=interctive")
	f(`inference_exporter: unknown api "smtp"; known: openai-chat, .*`, url, "--api=smtp")
	f(`inference_exporter: model "a\\nb": want at most 256 bytes without control characters`, url, "--model=a\nb")
	f(`inference_exporter: --count=0: want at least 1, try .*`, url, "-n", "0")
	f(`inference_exporter: --concurrency=0: want 1 to 1000, try .*`, url, "-c", "0")
	f(`inference_exporter: --concurrency: not with --baseline .*`, url, "-c", "2", "-n", "20", "--save-baseline=b.json")
	f(`inference_exporter: --interval=-1s: want at least 0s, try .*`, url, "--interval=-1s")
	f(`inference_exporter: --timeout=-1s: want more than 0s, try .*`, url, "--timeout=-1s")
	f(`inference_exporter: --timeout=0s: want more than 0s, try .*`, url, "--timeout=0s")
	f(`inference_exporter: --output=xml: want one of text, json, junit, try inference_exporter probe --help`, url, "--output=xml")
}

// TestProgress checks that the line counts while nothing comes, as of a server that hangs.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := &progress{w: &b, what: "probing", total: 4}
		p.start()
		time.Sleep(2500 * time.Millisecond)
		p.set(2, 1)
		p.end()
		p.end()
		time.Sleep(time.Minute)
		empty, half := strings.Repeat("-", 40), strings.Repeat("#", 20)+strings.Repeat("-", 20)
		want := "\r[" + empty + "] 0/4, 1s\x1b[K\r[" + empty + "] 0/4, 2s\x1b[K\r[" + half + "] 2/4, 1 failed, 2s\x1b[K\r\x1b[K"
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		b.Reset()
		p = &progress{w: &b, what: "probing", total: 1}
		p.start()
		time.Sleep(1500 * time.Millisecond)
		p.end()
		if diff := cmp.Diff("\rprobing, 1s\x1b[K\r\x1b[K", b.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	if silent := newProgress(new(bytes.Buffer), "probing", 4); silent != nil {
		t.Error("a line for nobody")
	}
}

// TestProbesAtOnce has a server that answers only when so many requests wait for it.
func TestProbesAtOnce(t *testing.T) {
	t.Parallel()
	const atOnce = 3
	s := simulator.New(testlab.Quick()).Handler()
	var mu sync.Mutex
	waiting, full := 0, make(chan struct{})
	wait := func() <-chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		own := full
		if waiting++; waiting == atOnce {
			close(full)
			waiting, full = 0, make(chan struct{})
		}
		return own
	}
	server := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // until it is read, nobody sees that the client is gone
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Method == http.MethodPost {
			select {
			case <-wait():
			case <-r.Context().Done():
			}
		}
		s.ServeHTTP(w, r)
	}))
	f := func(want int, args ...string) {
		t.Helper()
		got := runToEnd(t, append([]string{"probe", server, "--api=openai-chat", "--model=simulated-8b", "--timeout=10s", "-o", "json"}, args...)...)
		all := documents(t, got.stdout)
		if last := all[len(all)-1]; got.code != cli.ExitOK || len(all) != want+1 || last.Summary == nil || last.Summary.Outcomes[result.Success] != want {
			t.Errorf("%v: exit code %d, %s\n%s", args, got.code, got.stderr, got.stdout)
		}
	}
	f(atOnce, "-c", "3")
	f(2*atOnce, "--concurrency=3", "-n", "6")
}

func TestColorsOnlyOnATerminal(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	file, err := os.Create(writeFile(t, "out", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f := func(term, noColor string, want bool) {
		t.Helper()
		t.Setenv("TERM", term)
		t.Setenv("NO_COLOR", noColor)
		if got := wantsColor(device); got != want {
			t.Errorf("TERM=%s NO_COLOR=%s: colours %t", term, noColor, got)
		}
		if wantsColor(file) || wantsColor(&bytes.Buffer{}) {
			t.Errorf("TERM=%s NO_COLOR=%s: colours in a file", term, noColor)
		}
	}
	f("xterm", "", true)
	f("xterm", "1", false)
	f("dumb", "", false)
}

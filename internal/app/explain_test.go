package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// Without a running exporter a URL is probed and explained.
func TestExplainURL(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	f := func(path string, want explain.Cause, state, text string) {
		t.Helper()
		got := runToEnd(t, "explain", "-n", "3", server+path)
		if got.code != cli.ExitOK || got.stderr != "" || !strings.Contains(got.stdout, ": "+state+"\n") || !strings.Contains(got.stdout, "("+string(want)+")") || !strings.Contains(got.stdout, text) {
			t.Errorf("%s: exit code %d, %q:\n%s", path, got.code, got.stderr, got.stdout)
		}
		got = runToEnd(t, "explain", "-n", "1", "-o", "json", server+path)
		var r explain.Report
		if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || r.Findings[0].Cause != want || r.State != state || r.At == 0 {
			t.Errorf("%s: %v:\n%s", path, err, got.stdout)
		}
	}
	f("/fault/status_401/v1", explain.KeyMissing, "down", "Invalid API key")
	f("/fault/html_200/v1", explain.Request, "down", "text/html")
	f("", explain.Healthy, "up", "3 of the latest 3 probes succeeded")
}

// A running exporter is asked for what it knows of its endpoint.
func TestExplainOfARunningExporter(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	p := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.gpu", "--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 500ms, timeout: 5s}
modules: {interactive: {input_tokens: 16, output_tokens: 4}}
endpoints: [{name: "a b", url: %s/fault/status_404/v1, api: openai-chat, model: simulated-8b, servers: {find: false}}]`, server)))
	p.waitFor("a cause", func(got metricsPage) bool {
		return got.Sum("inference_endpoint_state", "state", "down") == 1 && got.Has("inference_endpoint_cause_info", "endpoint", "a b", "cause", "request")
	})
	got := runToEnd(t, "explain", "--server="+p.base, "a b")
	if got.code != cli.ExitOK || !strings.HasPrefix(got.stdout, "a b: down since ") || !strings.Contains(got.stdout, "\nthe request does not fit the server (request)\n") {
		t.Errorf("exit code %d, %s:\n%s", got.code, got.stderr, got.stdout)
	}
	refused(t, cli.ExitFailure, []string{"inference_exporter: the exporter at 127.0.0.1:[0-9]+: no endpoint with this name"}, "explain", "--server="+p.base, "other")
	refused(t, cli.ExitFailure, []string{`inference_exporter: .*: no endpoint with this name; did you mean "a b"\?`}, "explain", "--server="+p.base, "a-b")
	waitForRow(t, p, `"cause":"request"`)
	resp, body := p.get("/api/v1/endpoints/a%20b/verdict?allow=degraded")
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), `"ok":false,"state":"down"`) {
		t.Errorf("verdict: status %d, %s", resp.StatusCode, body)
	}
}

// waitForRow waits until a text is in the rows of the status page.
func waitForRow(t *testing.T, p *program, text string) {
	t.Helper()
	deadline := time.After(patience)
	for tick := time.Tick(20 * time.Millisecond); ; {
		if _, body := p.get("/api/v1/endpoints"); strings.Contains(string(body), text) {
			return
		}
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("no %s in the rows", text)
		}
	}
}

// TestExplainHasTheFlagsOfProbe checks that what is explained may need a key, a protocol or
// a file, and that the exporter may need a password.
func TestExplainHasTheFlagsOfProbe(t *testing.T) {
	const key = "k-3f9a1c77"
	t.Setenv("EXPLAIN_TEST_KEY", key)
	s := simulator.New(testlab.Quick()).Handler()
	url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != key {
			http.Error(w, "no key", http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	}))
	file := writeFile(t, "exporter.yml", fmt.Sprintf(`
modules: {tiny: {input_tokens: 16, output_tokens: 2}}
endpoints: [{name: own, url: %s, api: anthropic, model: simulated-8b, http: {http_headers: {x-api-key: {secrets: ["${EXPLAIN_TEST_KEY}"]}}}}]`, url))
	for _, args := range [][]string{
		{"--key-env=EXPLAIN_TEST_KEY", "--api=anthropic", "--timeout=20s", url},
		{"--header=x-api-key: " + key, url},
		{"--config.file=" + file, "--module=tiny", "own"},
	} {
		got := runToEnd(t, append([]string{"explain", "-n", "1"}, args...)...)
		if got.code != cli.ExitOK || !strings.Contains(got.stdout, "("+string(explain.Healthy)+")") {
			t.Errorf("%v: exit code %d, %s:\n%s", args, got.code, got.stderr, got.stdout)
		}
	}
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		_ = json.NewEncoder(w).Encode(map[string]string{"error": fmt.Sprintf("asked by %q with %q", user, r.Header.Get("Authorization")[:6]+password)})
	}))
	defer exporter.Close()
	for user, want := range map[string]string{"": `asked by "" with "Bearer"`, "me@": `asked by "me" with "Basic ` + key + `"`} {
		server := strings.Replace(exporter.URL, "://", "://"+user, 1)
		refused(t, cli.ExitFailure, []string{"inference_exporter: the exporter at .*: " + want}, "explain", "--server="+server, "--key-env=EXPLAIN_TEST_KEY", "e")
	}
}

func TestExplainRefusals(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Server", "nginx")
		_, _ = w.Write([]byte("<html>"))
	}))
	defer login.Close()
	f := func(code int, pattern string, args ...string) {
		t.Helper()
		refused(t, code, []string{pattern}, append([]string{"explain"}, args...)...)
	}
	f(cli.ExitUsage, "inference_exporter: required argument 'target' not provided.*")
	f(cli.ExitUsage, "inference_exporter: --count=0: want at least 1, try .*", "-n", "0", "http://h")
	f(cli.ExitUsage, "inference_exporter: --server=nowhere: want a URL like http://127.0.0.1:10115", "--server=nowhere", "e")
	f(cli.ExitFailure, "inference_exporter: GET http://127.0.0.1:[0-9]+/api/v1/endpoints/e/explain: status 404 Not Found .text/plain; charset=utf-8., and no explanation; "+
		"check that --server is the URL of an exporter .*", "--server="+other.URL, "e")
	f(cli.ExitFailure, "inference_exporter: GET .*/api/v1/endpoints/e/explain: status 200 OK .text/html, server nginx., and no explanation; .*", "--server="+login.URL, "e")
	f(cli.ExitFailure, "inference_exporter: ask the exporter, which --server names: .*refused", "--server=http://127.0.0.1:1", "e")
}

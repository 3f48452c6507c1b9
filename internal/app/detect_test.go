package app

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// schemaLine is what editors find the schema by.
const schemaLine = "# yaml-language-server: $schema=" + config.SchemaURL + "\n"

func TestDetect(t *testing.T) {
	url := testlab.Serve(t, simulator.New(simulator.Options{Engine: "sglang", Model: "acme/chat-8b"}).Handler())
	got := runToEnd(t, "detect", url)
	want := schemaLine + `# api openai-chat, engine sglang 0.5.11
#   GET /v1/models: 200, 1 model, owned_by sglang
#   GET /server_info: 200, version 0.5.11
#   GET ` + url + `/metrics: metrics of sglang
endpoints:
  - url: ` + url + `
    api: openai-chat
    model: acme/chat-8b
`
	if d := cmp.Diff(ended{cli.ExitOK, want, ""}, got, cmp.AllowUnexported(ended{})); d != "" {
		t.Error(d)
	}
	if _, err := config.Parse([]byte(got.stdout), "detected"); err != nil {
		t.Error(err)
	}
}

// A vLLM with --api-key shows its page, and what names it needs the key.
func TestDetectKnowsTheEngineByItsPage(t *testing.T) {
	s := simulator.New(simulator.Options{}).Handler()
	url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.Error(w, `{"error":"Unauthorized"}`, http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	}))
	if got := runToEnd(t, "detect", url); !strings.HasPrefix(got.stdout, schemaLine+"# api openai-chat, engine vllm\n") {
		t.Errorf("exit code %d: %s", got.code, got.stdout)
	}
}

// For a server without a metrics page, detect names the option that enables it.
func TestDetectSaysHowToShowMetrics(t *testing.T) {
	s := simulator.New(simulator.Options{Engine: "sglang"}).Handler()
	url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			http.NotFound(w, r)
			return
		}
		s.ServeHTTP(w, r)
	}))
	got := runToEnd(t, "detect", url)
	if !strings.Contains(got.stdout, "#   no metrics of the server itself; to show them: ") || !strings.Contains(got.stdout, "--enable-metrics") {
		t.Errorf("exit code %d: %s", got.code, got.stdout)
	}
}

// A page that needs a key is there already.
func TestDetectNamesAPageThatNeedsAKey(t *testing.T) {
	s := simulator.New(simulator.Options{}).Handler()
	url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			http.Error(w, `{"error":"Unauthorized"}`, http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	}))
	want := "#   GET " + url + "/metrics: status 401: the page needs a key, or another one; see servers.http\n"
	if got := runToEnd(t, "detect", url); !strings.Contains(got.stdout, want) || strings.Contains(got.stdout, "to show them") {
		t.Errorf("exit code %d: %s", got.code, got.stdout)
	}
}

func TestDetectFindsNothing(t *testing.T) {
	t.Parallel()
	f := func(code int, patterns []string, args ...string) {
		t.Helper()
		refused(t, code, patterns, append([]string{"detect"}, args...)...)
	}
	const program = "inference_exporter: "
	f(cli.ExitUsage, []string{program + "required argument 'url' not provided, try inference_exporter detect --help"})
	f(cli.ExitUsage, []string{program + "detect: want a URL that begins with http:// or https://, or HOST:PORT"}, "localhost")
	f(cli.ExitUsage, []string{program + "detect: a user or password in the URL.*"}, "http://u:p@h")
	f(cli.ExitUsage, []string{program + "--timeout=0s: want more than 0s, try .*"}, "--timeout=0s", "http://h")

	gone := httptest.NewServer(nil)
	gone.Close()
	f(cli.ExitFailure, []string{
		program + "detect http://[0-9.:]+: nothing answers GET /v1/models: connection refused .connect to [0-9.:]+.",
	}, gone.URL)

	moved := testlab.Serve(t, http.RedirectHandler("https://elsewhere.example/?token=secret", http.StatusMovedPermanently))
	line := "  GET [a-z0-9/._-]+: 301, a redirect to https://elsewhere.example/, not followed"
	f(cli.ExitFailure, []string{
		line, line, line, line, line, line, line,
		program + "detect " + regexp.QuoteMeta(moved) + ": no known inference api after 7 questions: status 301: redirected to \"elsewhere.example\", and probes follow no redirect",
	}, moved)

	silent := testlab.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	f(cli.ExitFailure, []string{
		program + "detect http://[0-9.:]+: nothing answers GET /v1/models: timed out after 50ms",
	}, "--timeout=50ms", silent)

	endless := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for block := []byte(strings.Repeat("[", 1<<16)); r.Context().Err() == nil; {
			_, _ = w.Write(block)
		}
	}))
	line = "  GET [a-z0-9/._-]+: 200, too long to read"
	f(cli.ExitFailure, []string{
		line, line, line, line, line, line, line,
		program + "detect http://[0-9.:]+: no known inference api after 7 questions",
	}, endless)
}

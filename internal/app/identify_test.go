package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/cli"
)

// A server that accepts connections and never answers is down, by a URL alone,
// in the metrics and in the log.
func TestServerThatNeverAnswers(t *testing.T) {
	silent := serveHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	l := startReloading(t, fmt.Sprintf(`
modules: {interactive: {interval: 1s, timeouts: {first_token: 300ms}}}
endpoints: [{name: e, url: %q}]
`, silent))
	l.waitFor("a judged probe", func(p page) bool {
		if p.sum("inference_probe_results_total", "outcome", "canceled") != 0 {
			t.Fatal("a probe is canceled, though nobody canceled it")
		}
		return p.sum("inference_probe_results_total", "outcome", "timeout_first_token") > 0 && p.has("inference_probe_success")
	})
}

// severalModels lists two models, and answers any question in chat.
func severalModels(t *testing.T) string {
	return serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"one"},{"id":"two"}]}`)
		case "/v1/chat/completions":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"1"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		default:
			http.NotFound(w, r)
		}
	}))
}

// Which of several models to ask is a matter of the configuration: probe and the
// daemon say what to write, and take it.
func TestSeveralModels(t *testing.T) {
	url := severalModels(t)
	got := runToEnd(t, "probe", url)
	for _, want := range []string{"not asked", "model", `"one", "two"`} {
		if got.code == cli.ExitOK || !strings.Contains(got.stdout, want) {
			t.Errorf("exit code %d without %q: %s", got.code, want, got.stdout)
		}
	}
	if got := runToEnd(t, "probe", "--model=two", url); got.code != cli.ExitOK || !strings.Contains(got.stdout, "model two") {
		t.Errorf("exit code %d: %s %s", got.code, got.stdout, got.stderr)
	}
	if got := runToEnd(t, "detect", url); got.code != cli.ExitOK || !strings.Contains(got.stdout, "model: one # or two") {
		t.Errorf("exit code %d: %s %s", got.code, got.stdout, got.stderr)
	}
	p := start(t, "--endpoint="+url, "--model=two", "--web.listen-address=127.0.0.1:0")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	if _, body := get(t, client, p.base+"/probe?target="+url); !strings.Contains(string(body), `model="two"`) {
		t.Errorf("the daemon with --model probes %s", body)
	}
}

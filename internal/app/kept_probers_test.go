package app

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// TestProbePageRemembers what the server is and how many tokens a prompt has.
func TestProbePageRemembers(t *testing.T) {
	var questions atomic.Int64
	simulated := simulator.New(quick()).Handler()
	server := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			questions.Add(1)
		}
		simulated.ServeHTTP(w, r)
	}))
	p := startIdle(t, fmt.Sprintf(`
modules: {interactive: {input_tokens: 256, output_tokens: 4}}
endpoints: [{name: good, url: %q}]
`, server))
	f := func(pairs ...string) (asked int64, promptTokens float64) {
		t.Helper()
		before := questions.Load()
		status, body := p.probePage(append([]string{"target", "good"}, pairs...)...)
		got := parsePage(t, []byte(body))
		if status != http.StatusOK || got.sum("inference_probe_success") != 1 || !got.has("inference_endpoint_info", "engine", "vllm") {
			t.Errorf("%q: status %d:\n%s", pairs, status, body)
		}
		return questions.Load() - before, got.sum("inference_probe_prompt_tokens_total")
	}
	if asked, _ := f(); asked == 0 {
		t.Error("the first probe asks nothing, so that the test proves nothing")
	}
	for range 2 {
		// The prompt differs by its nonce, which is a few words.
		if asked, tokens := f(); asked != 0 || tokens < 0.95*256 || tokens > 1.05*256 {
			t.Errorf("%d questions, a prompt of %v tokens, want 0 and about 256", asked, tokens)
		}
	}
	if asked, _ := f("model", "simulated-8b"); asked == 0 {
		t.Error("another model is taken for the configured one")
	}
}

// TestProbePageInTurn probes with one prober for one request at a time.
func TestProbePageInTurn(t *testing.T) {
	var running, most atomic.Int64
	simulated := simulator.New(quick()).Handler()
	server := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost { // and not the reading of the server's page
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			// Counted before the answer: what follows its end is no longer the probe.
			<-time.After(10 * time.Millisecond)
			running.Add(-1)
		}
		simulated.ServeHTTP(w, r)
	}))
	p := startIdle(t, fmt.Sprintf("endpoints: [{name: good, url: %q, api: openai-chat, model: simulated-8b}]\n", server))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			status, body := p.probePage("target", "good")
			if status != http.StatusOK || parsePage(t, []byte(body)).sum("inference_probe_success") != 1 {
				t.Errorf("status %d:\n%s", status, body)
			}
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d probes at once", most.Load())
	}
}

// TestProbePageWaitsInTime for its turn, and says that it had none.
func TestProbePageWaitsInTime(t *testing.T) {
	asked := make(chan struct{}, 1)
	release := make(chan struct{})
	hangs := serveHTTP(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	p := startIdle(t, fmt.Sprintf("endpoints: [{name: hangs, url: %q, api: openai-chat, model: m}]\n", hangs))
	first := make(chan int, 1)
	go func() {
		status := 0 // without an answer
		defer func() { first <- status }()
		status, _ = p.probePage("target", "hangs")
	}()
	<-asked
	resp, body := p.get("/probe?target=hangs", "X-Prometheus-Scrape-Timeout-Seconds", "0.6")
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.HasPrefix(string(body), "another probe") {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
	close(release)
	if status := <-first; status != http.StatusOK {
		t.Errorf("the first one: status %d", status)
	}
}

// TestShutdownDuringProbePage ends a probe that would go on, with an answer.
func TestShutdownDuringProbePage(t *testing.T) {
	asked := make(chan struct{}, 2)
	ended := make(chan struct{})
	hangs := serveHTTP(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-ended
	}))
	defer close(ended)
	p := startIdle(t, fmt.Sprintf("endpoints: [{name: hangs, url: %q, api: openai-chat, model: m}]\n", hangs))
	statuses := make(chan int, 2)
	for _, model := range []string{"", "other"} { // with a prober that is kept, and without
		go func() {
			status := 0 // without an answer
			defer func() { statuses <- status }()
			status, _ = p.probePage("target", "hangs", "model", model)
		}()
	}
	for range 2 {
		<-asked
	}
	if code := p.stop(); code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	for range 2 {
		if status := <-statuses; status != http.StatusServiceUnavailable {
			t.Errorf("status %d", status)
		}
	}
}

package app

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// probePage asks for the page /probe with the given query, in pairs.
func (p *program) probePage(pairs ...string) (status int, body string) {
	p.t.Helper()
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	resp, text := p.get("/probe?" + q.Encode())
	return resp.StatusCode, string(text)
}

// startIdle runs the daemon with a configuration whose probes are an hour away.
func startIdle(t *testing.T, file string) *program {
	t.Helper()
	return start(t, "--web.listen-address=127.0.0.1:0", "--config.file="+writeFile(t, "exporter.yml", "global: {interval: 1h, labels: {site: here}}\n"+file))
}

func TestProbePage(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	p := startIdle(t, fmt.Sprintf(`
modules: {tiny: {output_tokens: 4, prefix: warm}}
endpoints:
  - {name: good, url: %q, api: openai-chat, labels: {team: search}}
  - {name: bad, url: %q}
`, server, server+"/fault/status_503"))

	status, body := p.probePage("target", "good", "module", "tiny")
	got := testlab.ParsePage(t, []byte(body))
	labels := []string{"endpoint", "good", "module", "tiny", "prefix", "warm", "model", "simulated-8b", "site", "here", "team", "search"}
	if status != http.StatusOK || got.Sum("inference_probe_success", labels...) != 1 || got.Sum("inference_probe_output_tokens_total", labels...) != 4 ||
		got.Sum("inference_probe_ttft_seconds", labels...)+got.Sum("inference_probe_imprecise_total", labels...) != 1 || !got.Has("inference_endpoint_info", "endpoint", "good", "url", server) {
		t.Errorf("status %d:\n%s", status, body)
	}
	if got.Sum("inference_probe_results_total") != 1 {
		t.Errorf("more than one probe:\n%s", body)
	}
	if _, metrics := p.get("/metrics"); testlab.ParsePage(t, metrics).Sum("inference_probe_results_total") != 0 {
		t.Error("the probe counts as one of the daemon's")
	}

	status, body = p.probePage("target", server) // module interactive
	if got = testlab.ParsePage(t, []byte(body)); status != http.StatusOK || got.Sum("inference_probe_success", "endpoint", "good", "module", "interactive") != 1 {
		t.Errorf("by its URL: status %d:\n%s", status, body)
	}
	status, body = p.probePage("target", "good", "api", "openai-completions")
	if got = testlab.ParsePage(t, []byte(body)); status != http.StatusOK || !got.Has("inference_endpoint_info", "api", "openai-completions") {
		t.Errorf("by another api: status %d:\n%s", status, body)
	}
	status, body = p.probePage("target", "good", "model", "no-such-model")
	if got = testlab.ParsePage(t, []byte(body)); status != http.StatusOK || got.Sum("inference_probe_results_total", "outcome", "http_error") != 1 {
		t.Errorf("with another model: status %d:\n%s", status, body)
	}
	status, body = p.probePage("target", "bad", "debug", "true")
	for _, want := range []string{"overloaded after", "\n  check next ", "\nMetrics\n", `outcome="overloaded"`} {
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%q is not in the answer with debug, status %d:\n%s", want, status, body)
		}
	}
	if resp, _ := p.get("/probe?target=good", "Accept", "application/openmetrics-text;version=1.0.0"); !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/openmetrics-text") {
		t.Errorf("content type %q", resp.Header.Get("Content-Type"))
	}
}

// TestProbePageNames compares with the daemon's page once that has probed. A single
// probe makes no state of an endpoint.
func TestProbePageNames(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	p := start(t, "--web.listen-address=127.0.0.1:0", "--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(
		"global: {interval: 100ms}\nendpoints: [{name: good, url: %q, servers: {find: false}}]\n", server)))
	timed := func(m metricsPage) bool { return m.Has("inference_probe_last_ttft_seconds") } // on a busy machine not all are
	var daemon, own metricsPage
	for !timed(daemon) || !timed(own) {
		p.waitFor("a success", func(m metricsPage) bool { return m.Sum("inference_probe_success") == 1 })
		_, metrics := p.get("/metrics") // the first result may come between two families of a page
		_, body := p.probePage("target", "good")
		daemon, own = testlab.ParsePage(t, metrics), testlab.ParsePage(t, []byte(body))
	}
	states := []string{"inference_probe_stalls_total", // of a busy machine
		"inference_endpoint_muted", "inference_endpoint_objective_missed", "inference_endpoint_state", "inference_endpoint_state_since_timestamp_seconds"}
	names := func(m metricsPage) []string {
		return slices.DeleteFunc(slices.Sorted(maps.Keys(m)), func(name string) bool {
			return slices.Contains(states, name) || !strings.HasPrefix(name, "inference_probe_") && !strings.HasPrefix(name, "inference_endpoint_") && !strings.HasPrefix(name, "inference_slo_")
		})
	}
	if diff := cmp.Diff(names(daemon), names(own)); diff != "" || len(names(own)) != len(own) {
		t.Errorf("%d families (-daemon +/probe):\n%s", len(own), diff)
	}
	daemonLabels, ownLabels := labelsOf(daemon["inference_probe_success"]), labelsOf(own["inference_probe_success"])
	if diff := cmp.Diff(daemonLabels, ownLabels); diff != "" {
		t.Errorf("labels (-daemon +/probe):\n%s", diff)
	}
}

// labelsOf are the labels of the first metric.
func labelsOf(f *dto.MetricFamily) map[string]string {
	labels := map[string]string{}
	for _, l := range f.GetMetric()[0].GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// TestProbePageInTime ends within the scraper's limit, as a timeout: while the
// api is detected, while the model is looked up, and in the probe itself.
func TestProbePageInTime(t *testing.T) {
	t.Parallel()
	hangs := testlab.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection is not seen
		<-r.Context().Done()
	}))
	p := startIdle(t, fmt.Sprintf("endpoints: [{name: hangs, url: %q}]\n", hangs))
	for _, query := range []string{"", "&api=openai-chat", "&api=openai-chat&model=m"} {
		resp, body := p.get("/probe?target=hangs"+query, "X-Prometheus-Scrape-Timeout-Seconds", "0.6")
		got := testlab.ParsePage(t, body)
		if resp.StatusCode != http.StatusOK || got.Sum("inference_probe_results_total", "outcome", "timeout_total") != 1 || !got.Has("inference_probe_success") {
			t.Errorf("%s: status %d:\n%s", query, resp.StatusCode, body)
		}
	}
}

// TestProbePageIsNoProxy reaches for what only the exporter can reach.
func TestProbePageIsNoProxy(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	secret := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		fmt.Fprint(w, "secret-content")
	}))
	redirect := testlab.Serve(t, http.RedirectHandler(secret, http.StatusTemporaryRedirect))
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	host := func(s string) string { return strings.TrimPrefix(s, "http://") }
	p := startIdle(t, fmt.Sprintf(`
endpoints:
  - {name: good, url: %q, model: m}
probe: {allow: [%q, %q, "*.example.com"]}
`, server, host(redirect), strings.Replace(host(server), "127.0.0.1", "localhost", 1)))

	f := func(status int, want string, pairs ...string) {
		t.Helper()
		got, body := p.probePage(pairs...)
		if got != status || !strings.HasPrefix(body, want) || strings.Contains(body, "hunter2") || strings.Contains(body, "secret-content") {
			t.Errorf("%q: status %d, %q, want %d, %q", pairs, got, body, status, want)
		}
	}
	const badRequest, forbidden = http.StatusBadRequest, http.StatusForbidden
	f(badRequest, "parameter target is missing")
	f(badRequest, `no endpoint named "nobody"`, "target", "nobody")
	f(badRequest, `no endpoint named "127.0.0.1:80"`, "target", "127.0.0.1:80")
	f(badRequest, `unknown module "fast"; known: agent, batch, code-completion, embedding, interactive, long-context, rag, structured, tool-call`, "target", "good", "module", "fast")
	f(badRequest, `unknown api "smtp"`, "target", "good", "api", "smtp")
	f(badRequest, `model "a\x00b"`, "target", "good", "model", "a\x00b")
	f(badRequest, `model "`, "target", "good", "model", strings.Repeat("m", 257))

	for _, scheme := range []string{"ftp", "file", "gopher", "unix", "javascript"} {
		f(badRequest, "parameter target: want a URL", "target", scheme+"://"+host(secret))
	}
	f(badRequest, "parameter target: a user or password", "target", "http://me:hunter2@"+host(secret))
	f(badRequest, "parameter target: a user or password", "target", "http://"+host(server)+"@"+host(secret))
	f(badRequest, "parameter target: a fragment", "target", secret+"?key=hunter2")
	f(badRequest, "parameter target: want a URL", "target", "http://a b/")

	f(forbidden, "host ", "target", secret)
	f(forbidden, "host ", "target", strings.ToUpper(secret[:4])+secret[4:])
	f(forbidden, "host ", "target", server+"/metrics") // its host, but not the URL as configured
	for _, other := range []string{"http://169.254.169.254/latest", "http://[::1]:9", "http://2130706433:9", "http://0x7f.1:9", "http://localhost:9", "http://example.com", "http://evil-example.com", "http://example.com.evil.net"} {
		f(forbidden, "host ", "target", other)
	}

	// Allowed: probed with what a redirect must not change.
	for _, api := range []string{"openai-chat", ""} { // "" finds it out first
		_, body := p.probePage("target", redirect, "model", "m", "debug", "true", "api", api)
		if strings.HasPrefix(body, "success") || !strings.Contains(body, "inference_probe_success{") {
			t.Errorf("a host that redirects:\n%s", body)
		}
	}
	status, body := p.probePage("target", strings.Replace(server, "127.0.0.1", "localhost", 1)+"/v1")
	if got := testlab.ParsePage(t, []byte(body)); status != http.StatusOK || got.Sum("inference_probe_success", "site", "here") != 1 {
		t.Errorf("an allowed host: status %d:\n%s", status, body)
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d requests reached what nobody allowed", n)
	}
}

// TestProbePageRemembers what the server is and how many tokens a prompt has.
func TestProbePageRemembers(t *testing.T) {
	t.Parallel()
	var questions atomic.Int64
	simulated := simulator.New(testlab.Quick()).Handler()
	server := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		got := testlab.ParsePage(t, []byte(body))
		if status != http.StatusOK || got.Sum("inference_probe_success") != 1 || !got.Has("inference_endpoint_info", "engine", "vllm") {
			t.Errorf("%q: status %d:\n%s", pairs, status, body)
		}
		return questions.Load() - before, got.Sum("inference_probe_prompt_tokens_total")
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
	t.Parallel()
	var running, most atomic.Int64
	simulated := simulator.New(testlab.Quick()).Handler()
	server := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
			if status != http.StatusOK || testlab.ParsePage(t, []byte(body)).Sum("inference_probe_success") != 1 {
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
	t.Parallel()
	asked := make(chan struct{}, 1)
	release := make(chan struct{})
	hangs := testlab.Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- struct{}{}:
		default: // more requests than the test waits for, as after a lookup that was late
		}
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
	t.Parallel()
	asked := make(chan struct{}, 2)
	ended := make(chan struct{})
	hangs := testlab.Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- struct{}{}:
		default: // more requests than the test waits for, as after a lookup that was late
		}
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

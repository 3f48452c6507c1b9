//go:build linux

package hostile

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// envDuration is for how long TestCrowd runs, as 10m; 75s by default.
const envDuration = "INFERENCE_EXPORTER_HOSTILE_DURATION"

const (
	crowdHealthy, crowdHostile = 180, 20
	crowdInterval              = 3 * time.Second
	// mostCrowdMemory is what all of them may make of the program, in MB.
	mostCrowdMemory = 150
	// longestLag is how late a healthy probe may start.
	longestLag = time.Second
	// longestExit is how long the program may take to end.
	longestExit = time.Second
)

// Among 200 endpoints 20 are hostile in every way at once, and so are a source of
// discovery, receivers of metrics and traces, a gateway and an exporter of GPUs. The
// others are probed when they are due, in bounded memory, and the program ends when it
// is asked to.
func TestCrowd(t *testing.T) {
	if os.Getenv(envRun) == "" {
		t.Skipf("runs the program for minutes: make hostile, or set %s", envRun)
	}
	length := 75 * time.Second
	if text := os.Getenv(envDuration); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, "", crowd(t))
	time.Sleep(2 * crowdInterval) // until each is probed at its place
	before, began := p.scrape(), time.Now()
	time.Sleep(length)
	after, elapsed := p.scrape(), time.Since(began)
	checkCrowd(t, before, after, elapsed)
	p.checkTexts()
	peak := p.peakMemory()
	asked := time.Now()
	p.terminate()
	exit := time.Since(asked)
	t.Logf("%s, peak %.0f MB, exit in %s", elapsed.Round(time.Second), peak, exit.Round(time.Millisecond))
	if peak > mostCrowdMemory {
		t.Errorf("peak %.0f MB, want at most %d", peak, mostCrowdMemory)
	}
	if exit > longestExit {
		t.Errorf("it took %s to end", exit)
	}
}

// checkCrowd checks what became of the healthy endpoints between two scrapes.
func checkCrowd(t *testing.T, before, after page, elapsed time.Duration) {
	t.Helper()
	const allowed = 5 // whose failures are shown
	wrong := 0
	due := elapsed.Seconds() / crowdInterval.Seconds()
	for i := range crowdHealthy {
		name := fmt.Sprint("healthy-", i)
		checkOutcomes(t, after, name, result.Success)
		n := after.results(name) - before.results(name)
		skipped := after.sum("inference_probe_skipped_total", "endpoint", name)
		if math.Abs(n-due) > 2 || skipped > 0 { // a scrape takes a while
			if wrong++; wrong <= allowed {
				t.Errorf("%s: %g results where %.1f were due, %g skipped", name, n, due, skipped)
			}
		}
	}
	if wrong > allowed {
		t.Errorf("and %d more", wrong-allowed)
	}
	pushes := func(p page) float64 {
		return p.sum("inference_exporter_metrics_pushes_total") + p.sum("inference_exporter_metrics_push_failures_total")
	}
	if n := pushes(after) - pushes(before); n < elapsed.Seconds()/20 { // each may take 5 s and have several requests
		t.Errorf("%g pushes of metrics in %s", n, elapsed)
	}
	if late, all := lateStarts(after), after["inference_exporter_schedule_lag_seconds"].GetMetric()[0].GetHistogram().GetSampleCount(); late > 0 {
		t.Errorf("%d of %d probes started more than %s late", late, all, longestLag)
	}
}

// lateStarts returns how many probes started later than they may.
func lateStarts(p page) uint64 {
	h := p["inference_exporter_schedule_lag_seconds"].GetMetric()[0].GetHistogram()
	late := h.GetSampleCount()
	for _, b := range h.GetBucket() {
		if b.GetUpperBound() <= longestLag.Seconds() {
			late = h.GetSampleCount() - b.GetCumulativeCount()
		}
	}
	return late
}

// crowd returns the configuration, of servers that run until the test ends.
func crowd(t *testing.T) string {
	t.Helper()
	text := new(strings.Builder)
	receiver := serveBombs(t, replies())
	fmt.Fprintf(text, `
global: {interval: %[1]s, timeout: 2s, limits: {in_flight: 100, in_flight_per_host: 100}}
metrics: {otlp_endpoint: %[2]q, interval: 2s}
tracing: {otlp_endpoint: %[2]q}
modules:
  interactive: {input_tokens: 16, output_tokens: 8, timeouts: {connect: 1s, first_token: 1s, stall: 1s}}
  typical: {traffic: {max_input_tokens: 64, max_output_tokens: 16}, input_tokens: 16, output_tokens: 8, timeouts: {connect: 1s, first_token: 1s, stall: 1s}}
discovery:
  - allow: ["127.0.0.1"]
    http_sd_configs: [{url: %[2]q, refresh_interval: 2s}]
gateways:
  router: {urls: [%[3]q], interval: 2s, timeout: 1s}
gpus: {pages: {exporter: {urls: [%[3]q], interval: 2s, timeout: 1s}}}
endpoints:
`, crowdInterval, receiver, serveBombs(t, pages())+"/metrics")
	url := startHealthy(t)
	for i := range crowdHealthy {
		fmt.Fprintf(text, "  - {name: healthy-%d, url: %q, api: openai-chat, model: m, modules: [%s], servers: {urls: []}}\n", i, url, []string{"interactive", "typical"}[i%2])
	}
	for i := range crowdHostile {
		b := everything(http1(), i)
		http := "{}"
		if i%2 == 1 {
			b, http = everything(http2Behaviours(), i), "{enable_http2: true, tls_config: {insecure_skip_verify: true}}"
		}
		fmt.Fprintf(text, "  - {name: hostile-%d, url: %q, api: openai-chat, model: m, modules: [interactive, typical], gateway: router, http: %s, servers: {urls: [%q], interval: 2s, timeout: 1s}}\n",
			i, startAll(t, []Behaviour{b})[0].URL, http, serveBombs(t, turned(pages(), i))+"/metrics")
	}
	return text.String()
}

// everything returns a behaviour that is another one on each connection.
func everything(all []Behaviour, first int) Behaviour {
	scheme := []string{"http", "https"}[first%2]
	var of []Behaviour
	for _, b := range all {
		if b.Scheme == scheme {
			of = append(of, b)
		}
	}
	var turn atomic.Int64
	turn.Store(int64(first * len(of) / crowdHostile))
	return Behaviour{Scheme: scheme, HTTP2: of[0].HTTP2, serve: func(c *conn) {
		of[int(turn.Add(1))%len(of)].serve(c)
	}}
}

// answerer answers the nth request to a server.
type answerer func(w http.ResponseWriter, n int64)

func turned(all []answerer, by int) []answerer {
	by %= len(all)
	return append(append([]answerer{}, all[by:]...), all[:by]...)
}

// serveBombs starts a server that gives each of some answers for a while, and
// returns its URL.
func serveBombs(t *testing.T, all []answerer) string {
	t.Helper()
	const times = 5 // for what changes from one to the next
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n := asked.Add(1) - 1
		all[n/times%int64(len(all))](w, n)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// replies are what a receiver or a list of targets can answer.
func replies() []answerer {
	gz := bomb("", role)
	return []answerer{
		switchProtocols,
		hang,
		endless,
		func(w http.ResponseWriter, _ int64) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, gz)
		},
		func(w http.ResponseWriter, _ int64) {
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(http.StatusFound)
		},
		func(w http.ResponseWriter, _ int64) { w.WriteHeader(http.StatusServiceUnavailable) },
		func(w http.ResponseWriter, n int64) { // new targets each time, none of which answers
			w.Header().Set("Content-Type", "application/json")
			targets := make([]string, 100)
			for i := range targets {
				targets[i] = fmt.Sprintf(`{"targets": ["127.0.0.1:1"], "labels": {"__endpoint__": "found\u001b[31m-%d-%d", "team": "%s"}}`, n, i, strings.Repeat("x", 1000))
			}
			_, _ = io.WriteString(w, "["+strings.Join(targets, ",")+"]")
		},
		func(w http.ResponseWriter, _ int64) { _, _ = io.WriteString(w, "\x0a\xff\xff\xff\xff\x7f") },
	}
}

// switchProtocols answers 101 and says nothing more.
func switchProtocols(w http.ResponseWriter, _ int64) {
	say(w, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
}

// hang answers nothing.
func hang(w http.ResponseWriter, _ int64) { say(w, "") }

// say writes a text as it is, and then waits until the client leaves.
func say(w http.ResponseWriter, text string) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = io.WriteString(c, text)
	_, _ = io.Copy(io.Discard, c)
}

// endless answers without an end.
func endless(w http.ResponseWriter, _ int64) {
	text := strings.Repeat("# a comment\n", 1<<10)
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
		time.Sleep(pause)
	}
}

// pages are what can stand on a page of metrics.
func pages() []answerer {
	gz := bomb("", "vllm:num_requests_running{model_name=\"m\"} 1\n")
	return []answerer{
		func(w http.ResponseWriter, n int64) { histograms(w, 60, n) },
		func(w http.ResponseWriter, n int64) { histograms(w, 24_000, n) },
		func(w http.ResponseWriter, n int64) { // new labels
			for i := range 2000 {
				fmt.Fprintf(w, "vllm:num_requests_running{model_name=\"m-%d-%d\x1b[31m\"} 1\n", n, i)
				fmt.Fprintf(w, "litellm_deployment_state{model_id=\"m-%d-%d\"} 0\n", n, i)
				fmt.Fprintf(w, "DCGM_FI_DEV_GPU_UTIL{gpu=\"%d\",UUID=\"GPU-%d-%d\",modelName=\"\u202eH100 %s\"} 1\n", i, n, i, strings.Repeat("x", 200))
			}
		},
		switchProtocols,
		hang,
		endless,
		func(w http.ResponseWriter, _ int64) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, gz)
		},
		func(w http.ResponseWriter, _ int64) {
			_, _ = io.WriteString(w, strings.Repeat("vllm:num_requests_running 1\n", 200_001))
		},
	}
}

// histograms writes a page of vLLM with so many buckets, whose bounds n changes.
func histograms(w io.Writer, buckets int, n int64) {
	page := new(strings.Builder)
	page.WriteString("vllm:num_requests_running{model_name=\"m\"} 1\n")
	for _, name := range []string{"vllm:request_prompt_tokens", "vllm:request_generation_tokens"} {
		for i := range buckets {
			fmt.Fprintf(page, "%s_bucket{model_name=\"m\",le=\"%d.%d\"} %d\n", name, i, n, (n+1)*int64(i+1))
		}
		total := (n + 1) * int64(buckets)
		fmt.Fprintf(page, "%[1]s_bucket{model_name=\"m\",le=\"+Inf\"} %[2]d\n%[1]s_count{model_name=\"m\"} %[2]d\n%[1]s_sum{model_name=\"m\"} %[2]d\n", name, total)
	}
	_, _ = io.WriteString(w, page.String())
}

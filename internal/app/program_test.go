package app

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// patience is how long a test waits for what must come before it gives up.
const patience = 30 * time.Second

// program is a Run in this process that goes on until it is stopped.
type program struct {
	t      *testing.T
	base   string // URL of its first listener
	stdout *output
	stderr *output
	client *http.Client
	cancel context.CancelFunc
	code   chan int
}

// start runs the program with the given arguments. It returns when the
// program listens; the end of the test stops it. It must leave no goroutine.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	before := goleak.IgnoreCurrent()
	// Not the test's context, which ends before the clean-up.
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{
		t: t, stdout: &output{}, stderr: &output{}, cancel: cancel, code: make(chan int, 1),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}},
	}
	listening := make(chan string, 4)
	go func() {
		p.code <- Run(ctx, args, Options{Stdout: p.stdout, Stderr: p.stderr, OnListen: func(a net.Addr) {
			listening <- "http://" + a.String()
		}})
	}()
	select {
	case p.base = <-listening:
	case code := <-p.code:
		t.Fatalf("%q ended with %d: %s", args, code, p.stderr)
	case <-time.After(patience):
		t.Fatalf("%q does not listen", args)
	}
	t.Cleanup(func() {
		if ctx.Err() == nil {
			p.stop()
		}
		goleak.VerifyNone(t, before)
	})
	return p
}

// stop ends the program as a signal would and returns its exit code.
func (p *program) stop() int {
	p.t.Helper()
	p.cancel()
	select {
	case code := <-p.code:
		return code
	case <-time.After(shutdownTimeout + 2*time.Second):
		p.t.Fatal("the program does not end")
		return 0
	}
}

// get returns the status and the body of a page. Headers come in pairs.
func (p *program) get(path string, header ...string) (*http.Response, []byte) {
	p.t.Helper()
	return get(p.t, p.client, p.base+path, header...)
}

func get(t *testing.T, client *http.Client, url string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// page is a page of metrics.
type page map[string]*dto.MetricFamily

// waitFor scrapes until the page is as wanted, and returns it and its text.
func (p *program) waitFor(what string, wanted func(page) bool) (page, []byte) {
	p.t.Helper()
	deadline := time.After(patience)
	for tick := time.Tick(20 * time.Millisecond); ; {
		_, body := p.get("/metrics")
		got := parsePage(p.t, body)
		if wanted(got) {
			return got, body
		}
		select {
		case <-tick:
		case <-deadline:
			p.t.Fatalf("waited in vain for %s; the log:\n%s", what, p.stderr)
		}
	}
}

func parsePage(t *testing.T, text []byte) page {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	got, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// sum adds the samples of a family whose labels include the given pairs, with
// the counts for histograms and summaries.
func (p page) sum(name string, labels ...string) float64 {
	total := 0.0
	for _, m := range p[name].GetMetric() {
		if hasLabels(m, labels) {
			total += m.GetGauge().GetValue() + m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount()) + float64(m.GetSummary().GetSampleCount())
		}
	}
	return total
}

// has tells whether a family has a sample with the given labels.
func (p page) has(name string, labels ...string) bool {
	for _, m := range p[name].GetMetric() {
		if hasLabels(m, labels) {
			return true
		}
	}
	return false
}

func hasLabels(m *dto.Metric, pairs []string) bool {
	for i := 0; i < len(pairs); i += 2 {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetName() == pairs[i] && l.GetValue() == pairs[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

// probes returns how many probes of an endpoint have ended.
func (p page) probes(endpoint string) float64 {
	return p.sum("inference_probe_results_total", "endpoint", endpoint)
}

// quick is a healthy server that answers a probe within milliseconds.
func quick() simulator.Options {
	return simulator.Options{DecodeStep: time.Millisecond, PrefillTokensPerSecond: 1e6, Seed: 1}
}

// serveHTTP serves h until the test ends. To be called before start, so that
// its goroutines are not taken for the program's.
func serveHTTP(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// writeFile writes a file of the test and returns its name.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// output is what a program printed; it may be read while the program runs.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// lines returns the lines that contain a text.
func (o *output) lines(with string) []string {
	var found []string
	for line := range strings.Lines(o.String()) {
		if strings.Contains(line, with) {
			found = append(found, strings.TrimSuffix(line, "\n"))
		}
	}
	return found
}

package otlp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/internal/app"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// patience is how long a test waits for what must come before it gives up.
const patience = time.Minute

// How often endpoints are probed: seldom is not while a test runs.
const often, seldom = "3s", "1h"

// special is a value of a label with what formats escape.
const special = "Łódź \"1\"\\n \n{x=1},"

// stand is the program in this process, with endpoints of which one is well, one fails
// at times, and one does not exist.
type stand struct {
	t         *testing.T
	collector *collector
	file      string // the configuration
	base      string // URL of the program
	well      *testlab.Witness
	failing   string // its URL
}

// newStand starts the program, which pushes metrics and spans to the collector.
func newStand(t *testing.T, c *collector) *stand {
	t.Helper()
	s := &stand{t: t, collector: c, file: filepath.Join(t.TempDir(), "config.yml")}
	s.well = testlab.NewWitness(t, simulator.Options{Seed: 1, DecodeStep: time.Millisecond, PrefillTokensPerSecond: 1e5, TokensPerEvent: 2})
	var faults []simulator.Fault
	for _, name := range []string{"status_503", "error_event_midstream", "cut_before_finish", "empty_stream"} {
		fault, ok := simulator.FaultNamed(name)
		if !ok {
			t.Fatalf("no fault %s", name)
		}
		faults = append(faults, fault)
	}
	s.failing = testlab.Serve(t, simulator.New(simulator.Options{Seed: 2, DecodeStep: time.Millisecond, FaultRatio: 0.4, Faults: faults}).Handler())
	s.configure(often)
	ctx, cancel := context.WithCancel(context.Background())
	address, ended := make(chan string, 1), make(chan int, 1)
	var log strings.Builder // not to be read before the end
	args := []string{"--config.file=" + s.file, "--web.listen-address=127.0.0.1:0", "--web.enable-lifecycle", "--no-collector.gpu", "--state.path="}
	go func() {
		ended <- app.Run(ctx, args, app.Options{Stdout: io.Discard, Stderr: &log, OnListen: func(a net.Addr) { address <- a.String() }})
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("the exporter ended with %d: %s", code, log.String())
		}
	})
	select {
	case a := <-address:
		s.base = "http://" + a
	case <-time.After(patience):
		t.Fatal("the exporter does not listen")
	}
	return s
}

// configure writes the configuration: how often endpoints are probed and their servers
// read, and which of the endpoints are left out.
func (s *stand) configure(interval string, without ...string) {
	s.t.Helper()
	text := fmt.Sprintf(`
global: {interval: %[3]s, timeout: 5s, labels: {site: %[1]q}}
metrics: {otlp_endpoint: "http://%[2]s", interval: 1s}
tracing: {otlp_endpoint: "http://%[2]s"}
modules:
  interactive: {input_tokens: 128, output_tokens: 8}
  warm: {input_tokens: 256, output_tokens: 4, prefix: warm}
endpoints:
`, special, s.collector.address, interval)
	for _, e := range []struct{ name, of string }{
		{"well", fmt.Sprintf(`url: %q, modules: [interactive, warm], price: {input_usd: 1, output_usd: 2},
      slo: {objective: 0.9, ttft: 500ms, tpot: 50ms}, servers: {interval: %s}`, s.well.URL, interval)},
		{"failing", fmt.Sprintf("url: %q, modules: [interactive]", s.failing)},
		{"dead", `url: "http://127.0.0.1:1", api: openai-chat, model: m, modules: [interactive]`},
	} {
		if !slices.Contains(without, e.name) {
			text += fmt.Sprintf("  - {name: %s, %s}\n", e.name, e.of)
		}
	}
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// reload makes the program read another configuration.
func (s *stand) reload(interval string, without ...string) {
	s.t.Helper()
	s.configure(interval, without...)
	resp, err := http.Post(s.base+"/-/reload", "", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("reload: %s: %s", resp.Status, text)
	}
}

// page is a page of metrics, of an instant between began and ended.
type page struct {
	began, ended time.Time
	points       map[string]*point
	families     []*dto.MetricFamily
}

// read returns the page of now, in the format that has native histograms.
func (s *stand) read() *page {
	s.t.Helper()
	p := &page{began: time.Now()}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.base+"/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	for d := expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header)); ; {
		f := new(dto.MetricFamily)
		if err := d.Decode(f); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			s.t.Fatal(err)
		}
		p.families = append(p.families, f)
	}
	p.ended = time.Now()
	p.points = ofPage(p.families)
	return p
}

// waitFor reads pages until one is as wanted.
func (s *stand) waitFor(what string, is func(*page) bool) *page {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if p := s.read(); is(p) {
			return p
		} else if time.Now().After(deadline) {
			s.t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// sum adds the values of the series of a family that have the labels, each as in
// endpoint="well".
func (p *page) sum(family string, labels ...string) (total float64) {
	for series, x := range p.points {
		if x.Name == family && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(series, l) }) {
			total += x.Value
		}
	}
	return total
}

package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/schedule"
	"github.com/inference-exporter/inference_exporter/status"
)

// lab is a fleet without a scheduler that runs: the test runs the tasks.
type lab struct {
	*fleet
	t          *testing.T
	exposition *collector.Exposition
}

func newLab(t *testing.T) *lab {
	t.Helper()
	registry := prometheus.NewRegistry()
	parts := fleetParts{
		dialer: prober.NewDialer(), probing: schedule.New(schedule.Options{}),
		probes: collector.NewProbes(time.Now), servers: collector.NewServers(), self: collector.NewSelf(registry),
		board: status.NewBoard(time.Now), traces: &traces{}, budgets: newBudgets(config.Budget{}),
		logger: slog.New(slog.DiscardHandler),
	}
	l := &lab{
		t: t, exposition: collector.NewExposition(registry, parts.probes, parts.servers),
		fleet: newFleet(parts),
	}
	t.Cleanup(func() {
		l.close()
		_ = parts.dialer.Close()
	})
	return l
}

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse([]byte(text), "test.yml")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// plan makes a plan of what stands behind the key endpoints.
func (l *lab) plan(text string) plan {
	l.t.Helper()
	cfg := parse(l.t, `
modules: {interactive: {input_tokens: 16, output_tokens: 4, connection: reuse}}
endpoints: [`+text+"]")
	return plan{cfg: cfg, endpoints: cfg.Endpoints}
}

func (l *lab) mustApply(text string) {
	l.t.Helper()
	if err := l.apply(l.plan(text)); err != nil {
		l.t.Fatal(err)
	}
}

// probe runs the tasks of all endpoints once.
func (l *lab) probe() {
	l.t.Helper()
	for _, m := range l.members {
		for _, t := range m.tasks {
			if report := t.probe(l.t.Context(), schedule.Run{Scheduled: time.Now()}); report.Failed {
				l.t.Fatalf("the probe of %s failed", m.cfg.Name)
			}
		}
	}
}

func (l *lab) page() page {
	l.t.Helper()
	var b bytes.Buffer
	if err := l.exposition.Write(&b, expfmt.NewFormat(expfmt.TypeTextPlain)); err != nil {
		l.t.Fatal(err)
	}
	return parsePage(l.t, b.Bytes())
}

// expect compares the endpoints on the page and how many probes they had.
func (l *lab) expect(want map[string]float64) {
	l.t.Helper()
	got, p := map[string]float64{}, l.page()
	for _, m := range p["inference_endpoint_info"].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "endpoint" {
				got[label.GetValue()] = p.probes(label.GetValue())
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.t.Errorf("probes by endpoint (-want +got):\n%s", diff)
	}
	for _, m := range p["inference_probe_results_total"].GetMetric() {
		known := slices.ContainsFunc(m.GetLabel(), func(p *dto.LabelPair) bool {
			_, ok := want[p.GetValue()]
			return ok && p.GetName() == "endpoint"
		})
		if !known {
			l.t.Errorf("results of an endpoint that is not there: %v", m.GetLabel())
		}
	}
	if got := p.sum("inference_exporter_endpoints"); got != float64(len(want)) {
		l.t.Errorf("%v endpoints are counted, want %d", got, len(want))
	}
}

func TestApplyKeepsWhatStays(t *testing.T) {
	s := httptest.NewServer(simulator.New(quick()).Handler())
	defer s.Close()
	l := newLab(t)
	url := "url: " + s.URL + ", "
	l.mustApply(`
  {` + url + `name: stays, labels: {a: b}, http: {authorization: {credentials: secret}}},
  {` + url + `name: changes},
  {` + url + `name: goes}`)
	l.expect(map[string]float64{"stays": 0, "changes": 0, "goes": 0})
	l.probe()
	l.expect(map[string]float64{"stays": 1, "changes": 1, "goes": 1})
	l.mustApply(`
  {` + url + `name: comes},
  {` + url + `name: changes, http: {authorization: {credentials: new}}},
  {` + url + `name: stays, labels: {a: b}, http: {authorization: {credentials: secret}}}`)
	l.expect(map[string]float64{"stays": 1, "changes": 0, "comes": 0})
	l.probe()
	l.expect(map[string]float64{"stays": 2, "changes": 1, "comes": 1})
}

func TestApplyTakesAllOrNothing(t *testing.T) {
	s := httptest.NewServer(simulator.New(quick()).Handler())
	defer s.Close()
	l := newLab(t)
	l.mustApply("{url: " + s.URL + ", name: a}, {url: " + s.URL + ", name: b}")
	l.probe()

	next := l.plan("{url: " + s.URL + ", name: a}, {url: " + s.URL + ", name: c}, {url: " + s.URL + ", name: d}")
	next.endpoints[2].API = "smoke-signals"
	if err := l.apply(next); err == nil {
		t.Fatal("an endpoint with an unknown api was accepted")
	}
	l.expect(map[string]float64{"a": 1, "b": 1})
	l.probe()
	l.expect(map[string]float64{"a": 2, "b": 2})
}

// A probe that is running when its endpoint changes says nothing of the new
// one, although its job goes on under the same key.
func TestApplyWhileAProbeRuns(t *testing.T) {
	asked := make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the client stays unseen
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer s.Close()
	f := func(then string, want map[string]float64) {
		t.Helper()
		l := newLab(t)
		l.mustApply("{url: " + s.URL + ", name: a, model: old}")
		running := l.members["a"].tasks[0]
		ended := make(chan schedule.Report)
		go func() { ended <- running.probe(context.Background(), schedule.Run{}) }()
		<-asked
		l.mustApply(then)
		if report := <-ended; report.Failed {
			t.Error("the end of a task counts as a failure")
		}
		l.expect(want)
		if l.page().has("inference_endpoint_info", "endpoint", "a", "model", "old") {
			t.Error("the old model is back")
		}
		if got := l.page().sum("inference_exporter_probes_in_flight"); got != 0 {
			t.Errorf("%v probes in flight", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		running.probe(ctx, schedule.Run{})
		if len(asked) > 0 {
			t.Error("a task that is closed goes on asking")
		}
		l.expect(want)
	}
	f("{url: "+s.URL+", name: a, model: new}", map[string]float64{"a": 0})
	f("{url: "+s.URL+", name: b, model: old}", map[string]float64{"b": 0})
}

// A panic is a mistake of ours: its stack is needed, but not every time.
func TestPanicIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	tk := &task{logger: slog.New(slog.NewTextHandler(&log, nil))}
	for range 3 {
		tk.logOne(&result.Result{
			Outcome: result.ProtocolError,
			Err:     fmt.Errorf("wrapped: %w", &prober.PanicError{Value: "index out of range", Stack: []byte("goroutine 7")}),
		})
	}
	if n := bytes.Count(log.Bytes(), []byte(`level=ERROR msg="panic in a probe"`)); n != 1 || bytes.Count(log.Bytes(), []byte(`stack="goroutine 7"`)) != 1 {
		t.Errorf("%d lines tell of it:\n%s", n, &log)
	}
}

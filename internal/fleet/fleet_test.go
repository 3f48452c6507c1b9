package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/prober"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// metricsPage is a page of metrics.
type metricsPage = testlab.Page

// lab is a fleet without a scheduler that runs: the test runs the tasks.
type lab struct {
	*Fleet
	t          *testing.T
	exposition *collector.Exposition
}

func newLab(t *testing.T) *lab {
	t.Helper()
	registry := prometheus.NewRegistry()
	o := Options{
		Probing: schedule.New(schedule.Options{}), Probes: collector.NewProbes(time.Now),
		Self: collector.NewSelf(registry), Board: status.NewBoard(time.Now), Logger: slog.New(slog.DiscardHandler),
		Health: health.NewShared(time.Now, slog.New(slog.DiscardHandler)),
	}
	l := &lab{t: t, exposition: collector.NewExposition(registry, o.Probes), Fleet: New(o)}
	t.Cleanup(l.Close)
	return l
}

// ctx is the context of the test, with its network.
func (l *lab) ctx() context.Context { return testlab.Context(l.t) }

// planOf is a plan of all endpoints of a configuration.
func planOf(cfg *config.Config) Plan {
	return Plan{Config: cfg, Endpoints: cfg.Endpoints, All: cfg.Endpoints}
}

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse([]byte(text), "test.yml")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// plan makes a plan of the value of the key endpoints.
func (l *lab) plan(text string) Plan {
	l.t.Helper()
	cfg := parse(l.t, `
modules: {interactive: {input_tokens: 16, output_tokens: 4, connection: reuse}}
endpoints: [`+text+"]")
	return planOf(cfg)
}

func (l *lab) mustApply(text string) {
	l.t.Helper()
	if err := l.Apply(l.plan(text)); err != nil {
		l.t.Fatal(err)
	}
}

// probe runs the tasks of all endpoints once.
func (l *lab) probe() {
	l.t.Helper()
	for _, m := range l.active.Load().endpoints {
		for _, t := range m.tasks {
			if report := t.probe(l.ctx(), schedule.Run{Scheduled: time.Now()}); report.Failed {
				l.t.Fatalf("the probe of %s failed", m.cfg.Name)
			}
		}
	}
}

// take hands a result to the endpoint, as a run of the task does.
func (t *task) take(r *result.Result, disturbed, confirmation bool) {
	t.endpoint.observe(observe(t.Target, r, disturbed, confirmation), t.series.of(r))
}

func (l *lab) page() metricsPage {
	l.t.Helper()
	var b bytes.Buffer
	if err := l.exposition.Write(&b, expfmt.NewFormat(expfmt.TypeTextPlain)); err != nil {
		l.t.Fatal(err)
	}
	return testlab.ParsePage(l.t, b.Bytes())
}

// expect compares the endpoints on the page and how many probes they had.
func (l *lab) expect(want map[string]float64) {
	l.t.Helper()
	got, p := map[string]float64{}, l.page()
	for _, m := range p["inference_endpoint_info"].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "endpoint" {
				got[label.GetValue()] = p.Probes(label.GetValue())
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
	if got := p.Sum("inference_exporter_endpoints"); got != float64(len(want)) {
		l.t.Errorf("%v endpoints are counted, want %d", got, len(want))
	}
}

func TestApplyKeepsWhatStays(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		url := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
		l := newLab(t)
		url = "url: " + url + ", "
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
	})
}

// A module whose file with recorded arrivals changed is another one, so that its endpoints
// start again and what was learned of it is not taken up; with the same file it stays.
func TestApplyReadsArrivalsAgain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "arrivals.txt")
	l := newLab(t)
	apply := func(arrivals string) (*endpoint, uint64) {
		t.Helper()
		if err := os.WriteFile(name, []byte(arrivals), 0o600); err != nil {
			t.Fatal(err)
		}
		c := parse(t, "modules: {m: {concurrency: [2], arrivals: {process: recorded, profile_file: "+name+"}}}\n"+
			"endpoints: [{name: e, url: \"http://127.0.0.1:1\", modules: [m]}]\n")
		if err := l.Apply(planOf(c)); err != nil {
			t.Fatal(err)
		}
		return l.endpoint("e"), l.active.Load().hashes["m"]
	}
	first, hash := apply("0\n1\n")
	if same, sameHash := apply("10\n11\n"); same != first || sameHash != hash {
		t.Error("the same arrivals are taken for others")
	}
	if other, otherHash := apply("0\n2\n"); other == first || otherHash == hash {
		t.Error("other arrivals are taken for the same")
	}
}

func TestApplyTakesAllOrNothing(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		url := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
		l := newLab(t)
		l.mustApply("{url: " + url + ", name: a}, {url: " + url + ", name: b}")
		l.probe()

		next := l.plan("{url: " + url + ", name: a}, {url: " + url + ", name: c}, {url: " + url + ", name: d}")
		next.Endpoints[2].API = "smoke-signals"
		if err := l.Apply(next); err == nil {
			t.Fatal("an endpoint with an unknown api was accepted")
		}
		l.expect(map[string]float64{"a": 1, "b": 1})
		l.probe()
		l.expect(map[string]float64{"a": 2, "b": 2})
	})
}

// A probe that is running when its endpoint changes says nothing of the new
// one, although its job goes on under the same key.
func TestApplyWhileAProbeRuns(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		asked := make(chan struct{}, 1)
		url := testlab.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else the end of the client stays unseen
			asked <- struct{}{}
			<-r.Context().Done()
		}))
		f := func(then string, want map[string]float64) {
			t.Helper()
			l := newLab(t)
			l.mustApply("{url: " + url + ", name: a, model: old}")
			running := l.endpoint("a").tasks[0]
			ended := make(chan schedule.Report)
			go func() { ended <- running.probe(context.WithoutCancel(l.ctx()), schedule.Run{}) }()
			<-asked
			l.mustApply(then)
			if report := <-ended; report.Failed {
				t.Error("the end of a task counts as a failure")
			}
			l.expect(want)
			if l.page().Has("inference_endpoint_info", "endpoint", "a", "model", "old") {
				t.Error("the old model is back")
			}
			if got := l.page().Sum("inference_exporter_probes_in_flight"); got != 0 {
				t.Errorf("%v probes in flight", got)
			}
			ctx, cancel := context.WithTimeout(testlab.Context(t), time.Second)
			defer cancel()
			running.probe(ctx, schedule.Run{})
			if len(asked) > 0 {
				t.Error("a task that is closed goes on asking")
			}
			l.expect(want)
		}
		f("{url: "+url+", name: a, model: new}", map[string]float64{"a": 0})
		f("{url: "+url+", name: b, model: old}", map[string]float64{"b": 0})
	})
}

// The scheduler may know a task that was replaced for a while: its series are gone by then.
func TestReplacedTaskLetsGoOfItsSeries(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		l := newLab(t)
		url := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
		l.mustApply("{url: " + url + ", name: a}")
		l.probe()
		before := l.endpoint("a").tasks[0]
		l.mustApply("{url: " + url + ", name: a, slo: {ttft: 5s}}")
		if l.endpoint("a").tasks[0] == before || before.series != nil {
			t.Fatal("the task of other settings still has its series")
		}
		before.skip(result.SkipOverrun)
		if report := before.probe(testlab.Context(t), schedule.Run{}); !report.Skipped {
			t.Error("a task that is closed probes")
		}
		l.probe()
	})
}

// A panic is a mistake of ours: its stack is needed, but not every time.
func TestPanicIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	tl := newTestLog(&log, false)
	for range 3 {
		tl.one(&result.Result{
			Outcome: result.ProtocolError,
			Err:     fmt.Errorf("wrapped: %w", &prober.PanicError{Value: "index out of range", Stack: []byte("goroutine 7")}),
		})
	}
	if n := bytes.Count(log.Bytes(), []byte(`level=ERROR msg="panic in a probe"`)); n != 1 || bytes.Count(log.Bytes(), []byte(`stack="goroutine 7"`)) != 1 {
		t.Errorf("%d lines report it:\n%s", n, &log)
	}
}

func TestFindEndpoint(t *testing.T) {
	cfg := parse(t, `
endpoints:
  - {name: a, url: "http://h:1"}
  - {name: b, url: "http://h:1/"}
  - {name: "http://h:2", url: "http://h:3"}
  - {name: c, url: "http://h:2"}
`)
	f := func(target, want string) {
		t.Helper()
		got := ""
		if e := FindEndpoint(cfg.Endpoints, target); e != nil {
			got = e.Name
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", target, diff)
		}
	}
	f("a", "a")
	f("b", "b")
	f("http://h:1", "a") // the first of two
	f("http://h:1/", "a")
	f("http://h:2", "http://h:2") // a name comes before a URL
	f("http://h:3", "http://h:2")
	f("h:1", "")
	f("", "")
}

// A mute is by the name of an endpoint, and stays over reloads that change it or leave it
// out for a while. An unknown name is an error.
func TestMute(t *testing.T) {
	l := newLab(t)
	const before, after = "{url: http://127.0.0.1:1, name: a, model: m}", "{url: http://127.0.0.1:2, name: a, model: n}"
	expect := func(want health.State) {
		t.Helper()
		if s := l.State("a"); s == nil || s.State != want {
			t.Errorf("got %+v, want %s", s, want)
		}
	}
	for _, err := range []error{l.Mute("a", time.Hour, "too early"), l.Unmute("a")} {
		if !errors.Is(err, health.ErrNoEndpoint) {
			t.Errorf("got %v without the endpoint", err)
		}
	}
	l.mustApply(before)
	expect(health.Waiting)
	if err := l.Mute("a", time.Hour, "maintenance"); err != nil {
		t.Fatal(err)
	}
	expect(health.Muted)
	l.mustApply(after)
	expect(health.Muted)
	l.mustApply("{url: http://127.0.0.1:1, name: b, model: m}")
	if s := l.State("a"); s != nil {
		t.Errorf("an endpoint that was removed is %s", s.State)
	}
	l.mustApply(before)
	expect(health.Muted)
	if err := l.Unmute("a"); err != nil {
		t.Fatal(err)
	}
	expect(health.Waiting)
}

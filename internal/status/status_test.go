package status

import (
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// epochSeconds is epoch as a Unix time.
const epochSeconds = 1767323045

func epoch() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// lab is a board on a clock that the test sets.
type lab struct {
	t     testing.TB
	now   time.Time
	board *watched
}

// watched is a board with what judges its endpoints, fed as the fleet does.
type watched struct {
	*Board
	health *health.Shared

	mu        sync.Mutex
	endpoints map[string]*Endpoint
	series    map[result.SeriesID]*judged
	saved     map[result.SeriesID]savedOf // of an earlier process
}

// savedOf is what was saved of a series of a target.
type savedOf struct {
	target, record string
}

func newWatched(now func() time.Time) *watched {
	return &watched{
		Board: NewBoard(now), health: health.NewShared(now, slog.New(slog.DiscardHandler)),
		endpoints: map[string]*Endpoint{}, series: map[result.SeriesID]*judged{}, saved: map[result.SeriesID]savedOf{},
	}
}

// targetOf says whose the probes are.
func targetOf(cfg *config.Endpoint) string { return cfg.URL.String() + cfg.Model + cfg.API }

// SetEndpoint adds endpoints, or changes the configuration of those of the same target.
func (w *watched) SetEndpoint(all ...*config.Endpoint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cfg := range all {
		e := w.endpoints[cfg.Name]
		switch {
		case e != nil && targetOf(e.cfg) == targetOf(cfg):
			e.Configure(cfg)
			continue
		case e != nil:
			w.close(cfg.Name)
		}
		w.endpoints[cfg.Name] = w.NewEndpoint(cfg, health.New(cfg.Name, w.health, nil), nil)
	}
	w.Show(slices.Collect(maps.Values(w.endpoints)))
}

func (w *watched) RemoveEndpoint(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.endpoints[name] != nil {
		w.close(name)
		w.Show(slices.Collect(maps.Values(w.endpoints)))
	}
}

// close ends an endpoint; w.mu is held.
func (w *watched) close(name string) {
	w.endpoints[name].Close()
	delete(w.endpoints, name)
	maps.DeleteFunc(w.series, func(id result.SeriesID, _ *judged) bool { return id.Endpoint == name })
}

// endpoint returns the endpoint of a name; nil for none.
func (w *watched) endpoint(name string) *Endpoint {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.endpoints[name]
}

func (w *watched) SetServers(name string, all []page.Status) {
	if e := w.endpoint(name); e != nil {
		e.SetServers(all)
	}
}

func (w *watched) SetFindings(name, module string, f *workload.Findings) {
	w.endpoint(name).SetFindings(module, f)
}

func (w *watched) Note(name, module, text string) {
	if e := w.endpoint(name); e != nil {
		e.Note(module, text)
	}
}

// OpenSeries opens a series of an endpoint, which goes on where an earlier process ended. It
// returns nil without the endpoint.
func (w *watched) OpenSeries(id result.SeriesID, o health.SeriesOptions) *judged {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.endpoints[id.Endpoint]
	if e == nil {
		return nil
	}
	var past *Past
	if saved := w.saved[id]; saved.target == targetOf(e.cfg) {
		past = saved.past(w.now())
	}
	delete(w.saved, id)
	w.series[id] = &judged{e.OpenSeries(id, o, past), o.Objectives}
	return w.series[id]
}

func (s savedOf) past(now time.Time) *Past {
	var record SavedSeries
	if json.Unmarshal([]byte(s.record), &record) != nil {
		return nil
	}
	past, err := record.Restore(now)
	if err != nil {
		return nil
	}
	return past
}

func (w *watched) CloseSeries(id result.SeriesID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.series[id]; p != nil {
		p.Close()
		delete(w.series, id)
	}
}

// judged is a series with what its probes are judged by.
type judged struct {
	*Probes
	objectives *series.Objectives
}

func (p *judged) Observe(r *result.Result) {
	o := series.Observe(r, p.objectives, false, false)
	p.Probes.Observe(&o)
}

func newLab(t testing.TB) *lab {
	l := &lab{t: t, now: epoch()}
	l.board = newWatched(func() time.Time { return l.now })
	return l
}

// pass moves the clock.
func (l *lab) pass(d time.Duration) { l.now = l.now.Add(d) }

// configured returns a configuration.
func configured(name string) *config.Endpoint {
	return &config.Endpoint{
		Name: name, URL: config.URL{URL: &url.URL{Scheme: "http", Host: name + ":8000"}},
		Labels: map[string]string{"team": "search"},
	}
}

// pace is that of the series of the tests: the latest probe is old after 100 s.
func pace() health.SeriesOptions {
	return health.SeriesOptions{Interval: 30 * time.Second, Timeout: 10 * time.Second}
}

// open adds an endpoint e with a series for each ID, whose endpoint is set.
func (l *lab) open(ids ...result.SeriesID) []*judged {
	l.board.SetEndpoint(configured("e"))
	var all []*judged
	for _, id := range ids {
		id.Endpoint = "e"
		all = append(all, l.board.OpenSeries(id, pace()))
	}
	return all
}

// success is a probe that was started at a time.
func success(start time.Time) *result.Result {
	r := &result.Result{
		Start: start, Outcome: result.Success, Status: 200, API: "openai-chat", Kind: api.Generation,
		Engine: "vllm", Model: "llama", Prefix: "cold", Clock: result.ClockKernel, Finish: "stop",
		Timing: result.Timing{
			TTFT: 200 * time.Millisecond, TTFO: 210 * time.Millisecond, TPOT: 20 * time.Millisecond,
			MaxGap: 30 * time.Millisecond, Duration: 1500 * time.Millisecond,
		},
		Tokens:     result.Tokens{Prompt: 100, Cached: -1, Output: 3, Reasoning: -1, Source: result.TokensFromUsage},
		Server:     api.ServerTimes{Queue: result.Absent, Prefill: result.Absent, Decode: result.Absent},
		RateLimit:  api.RateLimit{Requests: -1, Tokens: -1},
		RetryAfter: result.Absent,
		Events: []result.Event{
			{At: 200 * time.Millisecond, Tokens: 1}, {At: 220 * time.Millisecond, Merged: true}, {At: 240 * time.Millisecond, Reasoning: true},
		},
	}
	for i := range r.Timing.Phases {
		r.Timing.Phases[i] = result.Absent
	}
	return r
}

// failure is a probe that got nothing.
func failure(start time.Time, o result.Outcome) *result.Result {
	r := success(start)
	r.Outcome, r.Err, r.Status, r.Events, r.Model, r.Engine, r.API = o, errors.New("no token"), 0, nil, "", "", ""
	r.Tokens = result.Tokens{Prompt: -1, Cached: -1, Output: -1, Reasoning: -1}
	r.Timing.TPOT, r.Timing.TTFO, r.Timing.MaxGap = result.Absent, result.Absent, result.Absent
	return r
}

// observe adds a probe that starts now: a success for "".
func (l *lab) observe(p *judged, o result.Outcome) {
	if o == "" {
		p.Observe(success(l.now))
		return
	}
	p.Observe(failure(l.now, o))
}

// row returns the row of endpoint e.
func (l *lab) row() *Row {
	l.t.Helper()
	return l.detail("e").row()
}

func (d *Detail) row() *Row { return &d.Row }

func (l *lab) detail(name string) *Detail {
	l.t.Helper()
	d, ok := l.board.Detail(name)
	if !ok {
		l.t.Fatalf("no endpoint %q", name)
	}
	return d
}

// failer is what tests and properties have in common.
type failer interface {
	Helper()
	Fatal(args ...any)
}

// text returns v as JSON.
func text(t failer, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// expectJSON compares v with what is wanted, whatever the order of keys.
func expectJSON(t testing.TB, v any, want string) {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	var g any
	if err := json.Unmarshal([]byte(text(t, v)), &g); err != nil {
		t.Fatal(err)
	}
	if got, want := text(t, g), text(t, w); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

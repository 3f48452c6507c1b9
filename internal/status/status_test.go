package status

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
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
	health *health.Monitor
}

func newWatched(now func() time.Time) *watched {
	return &watched{NewBoard(now), health.NewMonitor(now, slog.New(slog.DiscardHandler))}
}

func (w *watched) SetEndpoint(cfg *config.Endpoint) {
	w.Board.SetEndpoint(cfg, w.health.SetEndpoint(cfg.Name, ""))
}

func (w *watched) RemoveEndpoint(name string) {
	w.Board.RemoveEndpoint(name)
	w.health.RemoveEndpoint(name)
}

func (w *watched) OpenSeries(id result.SeriesID, o SeriesOptions) *judged {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	ho := health.SeriesOptions{Interval: seconds(o.Pace.Interval), Timeout: seconds(o.Pace.Timeout), First: o.First}
	ho.Objectives = o.Objectives
	o.Health = w.health.OpenSeries(id, ho)
	return &judged{w.Board.OpenSeries(id, o), o.Health, o.Objectives}
}

func (w *watched) CloseSeries(id result.SeriesID) {
	w.health.CloseSeries(id)
	w.Board.CloseSeries(id)
}

// judged is a series of both.
type judged struct {
	*Probes
	health     *health.Series
	objectives *series.Objectives
}

func (p *judged) Observe(r *result.Result) {
	o := series.Observe(r, p.objectives, false, false)
	p.add(&o)
}

func (p *judged) add(o *series.Observation) {
	p.log.Add(o)
	p.health.Observe(o)
	p.Probes.Observe(o)
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
func pace() SeriesOptions { return SeriesOptions{Pace: Pace{Interval: 30, Timeout: 10}} }

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

package status

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// An endpoint that nothing is known of has nothing but its configuration.
func TestRowBeforeTheFirstProbe(t *testing.T) {
	l := newLab(t)
	l.open(result.SeriesID{Module: "interactive", Prefix: "cold"})
	expectJSON(t, l.board.Fleet(), fmt.Sprintf(`{"version": %d, "at": 1767323045,
		"states": {"down": 0, "flapping": 0, "degraded": 0, "slow": 0, "stale": 0, "waiting": 1, "asleep": 0, "muted": 0, "up": 0},
		"endpoints": [{"name": "e", "url": "http://e:8000", "labels": {"team": "search"}, "module": "interactive",
			"state": "waiting", "since": 1767323045, "why": "no result yet"}]}`, l.board.Fleet().Version))
}

func TestEmptyBoard(t *testing.T) {
	l := newLab(t)
	want := `{"version": 1767323045000000, "at": 1767323045, "states": {"down": 0, "flapping": 0, "degraded": 0, "slow": 0, "stale": 0, "waiting": 0, "asleep": 0, "muted": 0, "up": 0}%s}`
	expectJSON(t, l.board.Fleet(), fmt.Sprintf(want, `, "endpoints": []`))
	expectJSON(t, l.board.Changes(1767323045000000), fmt.Sprintf(want, ""))
	if _, ok := l.board.Detail("e"); ok {
		t.Error("a page of no endpoint")
	}
}

func TestRow(t *testing.T) {
	l := newLab(t)
	o := pace()
	o.Objectives = &series.Objectives{Share: 0.99, TTFT: 500 * time.Millisecond}
	l.board.SetEndpoint(configured("e"))
	p := l.board.OpenSeries(result.SeriesID{Endpoint: "e", Module: "interactive", Prefix: "cold"}, o)
	r := failure(l.now, result.HTTPError)
	r.Status, r.Err = 502, errors.New("status 502: \"bad\x1b[31m\ngateway\"")
	p.Observe(r)
	for range 3 { // a clean run
		l.pass(30 * time.Second)
		l.observe(p, "")
	}
	row := l.row()
	// A quarter of the probes failed in 90 s of 30 days: 1 - 0.25/0.01 * 90/2592000.
	expectJSON(t, row, `{"name": "e", "url": "http://e:8000", "model": "llama", "api": "openai-chat", "engine": "vllm",
		"labels": {"team": "search"}, "module": "interactive", "state": "up", "since": 1767323075, "last_at": 1767323135,
		"uptime": {"from": 1767323045}, "budget_left": 0.9991319444444444,
		"outcomes": ["http_error", "success", "success", "success"], "runs": "x...",
		"failure": {"at": 1767323045, "module": "interactive", "outcome": "http_error",
			"message": "status 502: \"bad [31m gateway\"",
			"advice": "A gateway answers, but not the server behind it: is that running, and slower than the gateway's limit?"},
		"ttft_seconds": 0.2, "tpot_seconds": 0.02, "duration_seconds": 1.5,
		"ttft_window": {"samples": 4, "p99_lower": 0.2}, "slo": {"objective": 0.99, "ttft_seconds": 0.5}}`)

	l.pass(30 * time.Second)
	l.observe(p, result.TimeoutFirstToken)
	row = l.row()
	if row.TTFT != nil || row.TPOT != nil || row.Duration != nil {
		t.Errorf("after a failure: %s", text(t, row))
	}
	if row.Model != "llama" || row.Engine != "vllm" || row.API != "openai-chat" {
		t.Errorf("a failure without a reply makes unknown what was known: %s", text(t, row))
	}
	l.pass(10 * time.Second)
	l.observe(p, result.TimeoutFirstToken)
	row = l.row()
	if row.State != health.Down || row.Since != epochSeconds+120 || !slices.Equal(row.Failing, []string{"interactive"}) {
		t.Errorf("%s", text(t, row))
	}
}

// What an endpoint does not have is absent: embeddings have no tokens.
func TestRowWithoutTokens(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "embed", Prefix: "cold"})[0]
	r := success(l.now)
	r.Timing.TTFT, r.Timing.TPOT, r.Model, r.Engine, r.Events = result.Absent, result.Absent, "", "", nil
	p.Observe(r)
	row := l.row()
	if row.TTFT != nil || row.TPOT != nil || row.Duration == nil || *row.Duration != 1.5 || row.Model != "" || row.Window != nil {
		t.Errorf("%s", text(t, row))
	}
	if h := l.detail("e").Series[0].History; text(t, h) != `{"from":1767323045,"at":[1767323045],"ttft_seconds":[null],"tpot_seconds":[null],"outcome":["success"]}` {
		t.Errorf("history: %s", text(t, h))
	}
}

// The configuration fills in what probes do not report.
func TestRowOfConfiguration(t *testing.T) {
	l := newLab(t)
	cfg := configured("e")
	cfg.Model, cfg.API, cfg.Servers.Engine = "configured", "ollama", "own"
	l.board.SetEndpoint(cfg)
	expect := func(model, api, engine string) {
		t.Helper()
		if r := l.row(); r.Model != model || r.API != api || r.Engine != engine {
			t.Errorf("%s %s %s, want %s %s %s", r.Model, r.API, r.Engine, model, api, engine)
		}
	}
	expect("configured", "ollama", "own")
	p := l.board.OpenSeries(result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}, pace())
	l.observe(p, "")
	expect("llama", "openai-chat", "vllm")
	again := configured("e")
	again.Model, again.API = "configured", "ollama"
	again.Labels = map[string]string{"team": "ads"}
	l.board.SetEndpoint(again) // the same model at the same place
	expect("llama", "openai-chat", "vllm")
	if r := l.row(); r.State != health.Up || len(r.Outcomes) != 1 {
		t.Errorf("the history went with the change of configuration: %s", text(t, r))
	}
}

// A row shows the latest 30 outcomes of the series that is marked.
func TestRowOutcomes(t *testing.T) {
	l := newLab(t)
	ids := []result.SeriesID{{Endpoint: "e", Module: "a", Prefix: "cold"}, {Endpoint: "e", Module: "b", Prefix: "cold"}}
	all := l.open(ids...)
	if r := l.row(); r.Module != "a" {
		t.Errorf("module %q of an endpoint where none is marked", r.Module)
	}
	o := pace()
	o.First = true
	l.board.OpenSeries(ids[1], o)
	var want []result.Outcome
	for i := range 500 { // goes round
		outcome := result.Outcomes()[i%17]
		want = append(want, outcome)
		l.observe(all[0], result.Empty)
		if outcome == result.Success {
			outcome = ""
		}
		l.observe(all[1], outcome)
		if i+1 != 3 && i+1 != 30 && i+1 != 500 {
			continue
		}
		if r := l.row(); r.Module != "b" || !slices.Equal(r.Outcomes, want[max(0, len(want)-30):]) {
			t.Errorf("after %d: module %q, %v", i+1, r.Module, r.Outcomes)
		}
	}
}

// A canceled probe says nothing.
func TestCanceled(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	version := l.board.Fleet().Version
	l.observe(p, result.Canceled)
	if f := l.board.Fleet(); f.Version != version || f.States[health.Waiting] != 1 {
		t.Errorf("%s", text(t, f))
	}
}

// What comes after the end is lost.
func TestObserveAfterTheEnd(t *testing.T) {
	l := newLab(t)
	id := result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}
	p := l.open(id)[0]
	l.observe(p, "")
	l.board.CloseSeries(id)
	l.board.CloseSeries(id)
	if r := l.row(); r.State != health.Waiting || r.Module != "" || r.Outcomes != nil || r.TTFT != nil {
		t.Errorf("without series: %s", text(t, r))
	}
	l.observe(p, result.Empty)
	if r := l.row(); r.Failure != nil {
		t.Errorf("a failure of a closed series: %s", text(t, r))
	}
	p = l.open(id)[0]
	if r := l.row(); r.State != health.Waiting || len(r.Outcomes) != 0 {
		t.Errorf("a series that came back: %s", text(t, r))
	}
	l.board.RemoveEndpoint("e")
	l.board.RemoveEndpoint("e")
	version := l.board.Fleet().Version
	l.observe(p, "")
	p.Close()
	if f := l.board.Fleet(); f.Version != version || len(f.Endpoints) != 0 {
		t.Errorf("%s", text(t, f))
	}
	if n := l.board.pool.Logs(); n != 0 {
		t.Errorf("%d series are open", n)
	}
}

// A window follows the time also where no probe comes.
func TestWindowFollowsTime(t *testing.T) {
	l := newLab(t)
	o := health.SeriesOptions{Interval: 6000 * time.Second, Timeout: time.Minute, Objectives: &series.Objectives{Share: 0.9}}
	l.board.SetEndpoint(configured("e"))
	p := l.board.OpenSeries(result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}, o)
	for range 6 {
		l.observe(p, "")
		l.pass(10 * time.Minute)
	}
	version := l.board.Fleet().Version
	for minute := range 40 { // the probe of an hour ago is the first that is too old
		u := l.board.Changes(version)
		version = u.Version
		if wanted := minute > 0 && minute%10 == 0; wanted != (len(u.Endpoints) == 1) {
			t.Errorf("minute %d: %s", minute, text(t, u))
		} else if wanted && u.Endpoints[0].Window.Samples != 5-minute/10 {
			t.Errorf("minute %d: %d samples", minute, u.Endpoints[0].Window.Samples)
		}
		l.pass(time.Minute)
	}
}

// Bursts are a load of our own making: they are neither the failure of an
// endpoint nor its latest probe.
func TestRowWithoutBursts(t *testing.T) {
	l := newLab(t)
	all := l.open(result.SeriesID{Module: "m", Prefix: "cold"}, result.SeriesID{Module: "burst", Prefix: "cold", Concurrency: "8"})
	l.observe(all[0], "")
	l.pass(time.Second)
	l.observe(all[1], result.Overloaded)
	if r := l.row(); r.Failure != nil || r.LastAt != epochSeconds || r.State != health.Up {
		t.Errorf("%s", text(t, r))
	}
}

// What a server sends is bounded and cannot write over the page.
func TestHostileTexts(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	r := failure(l.now, result.StreamError)
	r.Err = errors.New("a\x00b\u202ec\n" + strings.Repeat("é", 100_000))
	p.Observe(r)
	l.pass(time.Second)
	l.board.Note("e", "m", "tab\tbell\a"+strings.Repeat("x", 1014)+"éx")
	d := l.detail("e")
	// 6 bytes, 507 letters of two bytes and 3 dots are 1,023.
	if want := "a b c " + strings.Repeat("é", 507) + "..."; d.Failure.Message != want {
		t.Errorf("message of %d bytes: %.40q, want %d bytes", len(d.Failure.Message), d.Failure.Message, len(want))
	}
	// 9 bytes, 1,012 and 3 dots are 1,024.
	if want := "tab bell " + strings.Repeat("x", 1012) + "..."; d.Changes[0].Text != want {
		t.Errorf("change: %.40q of %d bytes, want %d", d.Changes[0].Text, len(d.Changes[0].Text), len(want))
	}
	if kept, _ := p.Log.Last(); kept.Message() != d.Failure.Message {
		t.Errorf("kept error: %d bytes", len(kept.Message()))
	}
}

// An address has no password: the configuration rejects one, and the row shows the
// address as configured.
func TestRowShowsURLAsConfigured(t *testing.T) {
	l := newLab(t)
	cfg := configured("e")
	cfg.URL.URL = &url.URL{Scheme: "https", Host: "h", Path: "/v1", RawQuery: "api-version=2024-10-21"}
	l.board.SetEndpoint(cfg)
	if got := l.row().URL; got != "https://h/v1?api-version=2024-10-21" {
		t.Errorf("%q", got)
	}
}

// What the row says of an endpoint that fails is about what fails: a module
// that failed later, and has recovered, would lead to the wrong place.
func TestFailureIsOfWhatFails(t *testing.T) {
	l := newLab(t)
	all := l.open(result.SeriesID{Module: "a", Prefix: "cold"}, result.SeriesID{Module: "b", Prefix: "cold"})
	a, b := all[0], all[1]
	wants := func(state health.State, module string, outcome result.Outcome) {
		t.Helper()
		r := l.row()
		if r.State != state || r.Failure == nil || r.Failure.Module != module || r.Failure.Outcome != outcome {
			t.Errorf("%s with failure %+v, want %s with %s in %s", r.State, r.Failure, state, outcome, module)
		}
	}
	l.observe(a, result.Overloaded)
	l.pass(time.Second)
	l.observe(b, result.Empty)
	wants(health.Down, "b", result.Empty)
	l.pass(time.Second)
	l.observe(b, "")
	wants(health.Degraded, "a", result.Overloaded)
	l.pass(time.Second)
	l.observe(a, "")
	wants(health.Degraded, "b", result.Empty) // the latest of all, over now
}

func TestDetail(t *testing.T) {
	l := newLab(t)
	l.board.SetEndpoint(configured("e"))
	rung := result.SeriesID{Endpoint: "e", Module: "ladder", Prefix: "warm", InputTokens: "8000", OutputTokens: "64"}
	burst := result.SeriesID{Endpoint: "e", Module: "burst", Prefix: "cold", Concurrency: "8"}
	o := health.SeriesOptions{Interval: time.Minute, Timeout: 30 * time.Second, First: true}
	o.Objectives = &series.Objectives{Share: 0.9}
	l.board.OpenSeries(burst, pace())
	p := l.board.OpenSeries(rung, o)
	l.pass(1500 * time.Millisecond)
	l.observe(p, result.DNSError)
	d := l.detail("e")
	d.Series[1].Probes = d.Series[1].Probes[:0] // tested elsewhere
	expectJSON(t, d, fmt.Sprintf(`{"name": "e", "url": "http://e:8000", "labels": {"team": "search"}, "module": "ladder",
		"state": "waiting", "since": 1767323045, "why": "no token (ladder)",
		"last_at": 1767323046.5, "outcomes": ["dns_error"], "runs": "x", "failing": ["ladder"],
		"uptime": {"from": 1767323046}, "budget_left": 1,
		"failure": {"at": 1767323046.5, "module": "ladder", "outcome": "dns_error", "message": "no token",
			"advice": "Does the host's name resolve on this machine? Look for a typing error in the URL, a missing search domain, and at the resolver itself."},
		"ttft_window": {"samples": 1, "p99_lower": 0.2}, "slo": {"objective": 0.9},
		"at": 1767323046.5, "version": %d,
		"series": [
			{"module": "burst", "prefix": "cold", "concurrency": "8", "interval_seconds": 30, "probes": [],
				"history": {"from": 1767323045, "at": [], "ttft_seconds": [], "tpot_seconds": [], "outcome": []}},
			{"module": "ladder", "prefix": "warm", "input_tokens": "8000", "output_tokens": "64", "interval_seconds": 60,
				"ttft_window": {"samples": 1, "p99_lower": 0.2}, "slo": {"objective": 0.9}, "runs": "x", "probes": [],
				"uptime": {"from": 1767323046}, "budget_left": 1,
				"history": {"from": 1767323045, "at": [1767323046.5], "ttft_seconds": [null], "tpot_seconds": [null], "outcome": ["dns_error"]}}]}`, d.Version))

	// The order is that of the latest calls.
	l.board.OpenSeries(burst, pace())
	if s := l.detail("e").Series; s[0].Module != "ladder" || s[1].Module != "burst" || len(s[0].History.At) != 1 {
		t.Errorf("%s", text(t, s))
	}
	// A version of the page is one for Changes.
	if u := l.board.Changes(l.detail("e").Version); u.Reset || len(u.Endpoints) != 0 {
		t.Errorf("%s", text(t, u))
	}
}

// An endpoint without series has a page too.
func TestDetailWithoutSeries(t *testing.T) {
	l := newLab(t)
	l.board.SetEndpoint(configured("e"))
	d := l.detail("e")
	expectJSON(t, d, fmt.Sprintf(`{"name": "e", "url": "http://e:8000", "labels": {"team": "search"}, "state": "waiting", "why": "no result yet",
		"since": 1767323045, "at": 1767323045, "version": %d, "series": []}`, d.Version))
}

// crowd is a fact of an endpoint.
type crowd struct {
	Crowd int `json:"crowd"`
}

func (c *crowd) Figures() []workload.Figure {
	return []workload.Figure{{Label: "crowd", Value: fmt.Sprint(c.Crowd)}}
}

// The fields of a fact are among those of the endpoint, with what people see of it.
func TestDetailWithAFact(t *testing.T) {
	expectJSON(t, &Detail{Row: Row{Name: "e"}, Facts: &workload.Findings{All: []workload.Finding{&crowd{3}}}},
		`{"name": "e", "url": "", "state": "", "at": 0, "version": 0, "series": null, "crowd": 3, "figures": [{"label": "crowd", "value": "3"}]}`)
}

// The version of an endpoint grows with what happens to it and with what time
// alone changes, and with nothing of others.
func TestVersion(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	last := uint64(0)
	f := func(what string, grows bool) {
		t.Helper()
		v, ok := l.board.Version("e")
		if !ok || v > last != grows {
			t.Errorf("%s: version %d after %d, %t", what, v, last, ok)
		}
		last = v
	}
	f("new", true)
	l.observe(p, "")
	f("a probe", true)
	l.board.SetEndpoint(configured("other"))
	f("another endpoint", false)
	l.pass(time.Hour)
	f("stale", true)
	l.board.RemoveEndpoint("e")
	if _, ok := l.board.Version("e"); ok {
		t.Error("it is still there")
	}
}

// up is a server that was read.
func up(name string, ratio float64, values map[config.Quantity]float64) page.Status {
	s := page.Status{
		Server: name, URL: "http://" + name + "/metrics", At: epoch(), State: page.Up,
		Snapshot: &page.Snapshot{Engine: "vllm", Values: values, PrefixCacheRatio: ratio},
	}
	if ratio >= 0 {
		s.Snapshot.PrefixCacheUnit = "tokens"
	}
	return s
}

func TestLoad(t *testing.T) {
	down := page.Status{
		Server: "d", URL: "http://d/metrics", At: epoch(), State: page.Down, Reason: page.ReasonConnect, Err: errors.New("no\x1broute"),
	}
	full := up("a", 0.5, map[config.Quantity]float64{
		config.RequestsRunning: 3, config.RequestsWaiting: 0, config.KVCacheUsage: 0.25, config.PromptTokens: 1000,
	})
	fuller := up("b", 0.75, map[config.Quantity]float64{config.RequestsRunning: 4, config.KVCacheUsage: 0.75})
	for name, c := range map[string]struct {
		statuses []page.Status
		want     string
	}{
		"none":           {nil, `null`},
		"down":           {[]page.Status{down}, `{"known":1,"up":0}`},
		"nothing to say": {[]page.Status{up("a", -1, nil)}, `{"known":1,"up":1}`},
		"one":            {[]page.Status{full}, `{"known":1,"up":1,"running":3,"waiting":0,"kv_cache_usage_ratio":0.25,"prefix_cache_hit_ratio":0.5}`},
		"several": {
			[]page.Status{fuller, down, full},
			`{"known":3,"up":2,"running":7,"kv_cache_usage_ratio":0.75,"prefix_cache_hit_ratio":0.625}`,
		},
		"one that shows nothing": {
			[]page.Status{fuller, down, full, up("c", -1, nil)},
			`{"known":4,"up":3,"kv_cache_usage_ratio":0.75,"prefix_cache_hit_ratio":0.625}`,
		},
	} {
		l := newLab(t)
		l.open()
		l.board.SetServers("e", c.statuses)
		if got := text(t, l.row().Servers); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		l.board.SetServers("e", nil)
		if l.row().Servers != nil {
			t.Errorf("%s: servers that are gone", name)
		}
	}

	l := newLab(t)
	l.open()
	l.pass(time.Minute)
	l.board.SetServers("e", []page.Status{full, down, up("c", -1, nil)})
	expectJSON(t, l.detail("e").Pages, `[
		{"server": "a", "url": "http://a/metrics", "engine": "vllm", "at": 1767323045, "state": "up", "prefix_cache_hit_ratio": 0.5,
			"values": {"requests_running": 3, "requests_waiting": 0, "kv_cache_usage_ratio": 0.25, "prompt_tokens": 1000}},
		{"server": "d", "url": "http://d/metrics", "at": 1767323045, "state": "down", "reason": "connect", "error": "no route"},
		{"server": "c", "url": "http://c/metrics", "engine": "vllm", "at": 1767323045, "state": "up"}]`)
}

// TestEarlierTimes has a success whose times are certain, two whose are not, and a
// failure, after which no times hold.
func TestEarlierTimes(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "chat"})[0]
	l.observe(p, "")
	certain := stats.UnixSeconds(l.now)
	if r := l.row(); r.TTFT == nil || r.Earlier != nil {
		t.Fatalf("a certain probe has the times %s, earlier %s", text(t, r.Times), text(t, r.Earlier))
	}
	for range 2 {
		l.pass(30 * time.Second)
		r := success(l.now)
		r.Imprecise = true
		p.Observe(r)
		expectJSON(t, l.row().Earlier, fmt.Sprintf(`{"at": %v, "ttft_seconds": 0.2, "tpot_seconds": 0.02, "duration_seconds": 1.5}`, certain))
		if l.row().TTFT != nil {
			t.Error("the row has the TTFT of an imprecise probe")
		}
	}
	l.pass(30 * time.Second)
	l.observe(p, result.TimeoutStall)
	if r := l.row(); r.TTFT != nil || r.Earlier != nil {
		t.Errorf("a failure has the times %s, earlier %s", text(t, r.Times), text(t, r.Earlier))
	}
}

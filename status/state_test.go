package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// step is probes of the series by their index, and what they come to.
type step struct {
	after    time.Duration
	outcomes map[int]result.Outcome // "" is a success
	state    State
	failing  []string
}

func TestStates(t *testing.T) {
	const s = time.Second
	a, b := result.SeriesID{Module: "a", Prefix: "cold"}, result.SeriesID{Module: "b", Prefix: "cold"}
	for name, c := range map[string]struct {
		ids   []result.SeriesID
		steps []step
	}{
		"one module": {[]result.SeriesID{a}, []step{
			{0, nil, Waiting, nil},
			{s, map[int]result.Outcome{0: ""}, Up, nil},
			{s, map[int]result.Outcome{0: result.Empty}, Down, []string{"a"}},
			{s, map[int]result.Outcome{0: result.Canceled}, Down, []string{"a"}},
			{s, map[int]result.Outcome{0: ""}, Up, nil},
		}},
		"two modules": {[]result.SeriesID{a, b}, []step{
			{s, map[int]result.Outcome{1: result.Empty}, Down, []string{"b"}}, // of all that was asked
			{s, map[int]result.Outcome{0: ""}, Degraded, []string{"b"}},
			{s, map[int]result.Outcome{0: result.Empty}, Down, []string{"a", "b"}},
			{s, map[int]result.Outcome{1: ""}, Degraded, []string{"a"}},
			{s, map[int]result.Outcome{0: ""}, Up, nil},
		}},
		"rungs": {[]result.SeriesID{
			{Module: "a", Prefix: "cold", InputTokens: "100"}, {Module: "a", Prefix: "cold", InputTokens: "8000", OutputTokens: "64"}, b,
		}, []step{
			{s, map[int]result.Outcome{0: "", 1: result.TimeoutTotal, 2: ""}, Degraded, []string{"a (cold, input_tokens=8000, output_tokens=64)"}},
			{s, map[int]result.Outcome{0: result.Empty, 2: result.Empty}, Down, []string{
				"a (cold, input_tokens=100)", "a (cold, input_tokens=8000, output_tokens=64)", "b",
			}},
		}},
		// The warm half is left out after a failure of the cold one.
		"pair": {[]result.SeriesID{a, {Module: "a", Prefix: "warm"}}, []step{
			{s, map[int]result.Outcome{0: "", 1: ""}, Up, nil},
			{s, map[int]result.Outcome{0: result.ConnectError}, Down, []string{"a (cold)"}},
			{s, map[int]result.Outcome{0: ""}, Up, nil},
			{s, map[int]result.Outcome{1: result.Empty}, Degraded, []string{"a (warm)"}},
			{s, map[int]result.Outcome{0: ""}, Degraded, []string{"a (warm)"}}, // the run goes on
			{s, map[int]result.Outcome{1: result.Empty}, Degraded, []string{"a (warm)"}},
			{s, map[int]result.Outcome{0: result.ConnectError}, Down, []string{"a (cold)"}},
			{s, map[int]result.Outcome{0: ""}, Up, nil},
			{s, map[int]result.Outcome{1: ""}, Up, nil},
		}},
		"bursts beside probes": {[]result.SeriesID{a, {Module: "burst", Prefix: "cold", Concurrency: "8"}}, []step{
			{s, map[int]result.Outcome{1: result.Overloaded}, Waiting, nil},
			{s, map[int]result.Outcome{0: ""}, Up, nil},
		}},
		"nothing but bursts": {[]result.SeriesID{{Module: "burst", Prefix: "cold", Concurrency: "1"}, {Module: "burst", Prefix: "cold", Concurrency: "8"}}, []step{
			{s, map[int]result.Outcome{0: "", 1: result.Overloaded}, Up, nil},
			{s, map[int]result.Outcome{0: result.Empty, 1: ""}, Down, []string{"burst (cold, concurrency=1)"}},
		}},
		// Old after 3 * 30 s + 10 s.
		"stale": {[]result.SeriesID{a, b}, []step{
			{0, map[int]result.Outcome{0: "", 1: result.Empty}, Degraded, []string{"b"}},
			{100*s - 2*time.Microsecond, nil, Degraded, []string{"b"}},
			{time.Millisecond, nil, Stale, []string{"b"}},
			{time.Hour, map[int]result.Outcome{0: ""}, Up, nil}, // what b said is old
			{60 * s, map[int]result.Outcome{1: result.Empty}, Degraded, []string{"b"}},
			{41 * s, nil, Down, []string{"b"}}, // what a said is old
			{60 * s, nil, Stale, []string{"b"}},
			{0, map[int]result.Outcome{0: result.Empty}, Down, []string{"a"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			all := l.open(c.ids...)
			for i, step := range c.steps {
				l.pass(step.after)
				for j, p := range all {
					if o, ok := step.outcomes[j]; ok {
						l.observe(p, o)
						l.pass(time.Microsecond)
					}
				}
				if r := l.row(); r.State != step.state || !slices.Equal(r.Failing, step.failing) {
					t.Errorf("step %d: %s, failing %q; want %s, failing %q", i, r.State, r.Failing, step.state, step.failing)
				}
			}
		})
	}
}

// The wait for the first result ends, and does not begin again.
func TestNoResult(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	for _, step := range []struct {
		after time.Duration
		state State
	}{{0, Waiting}, {100 * time.Second, Waiting}, {time.Second, Stale}, {time.Hour, Stale}} {
		l.pass(step.after)
		if r := l.row(); r.State != step.state {
			t.Errorf("after %s more: %s, want %s", step.after, r.State, step.state)
		}
	}
	if since := l.row().Since; since != epochSeconds+100 {
		t.Errorf("stale since %v", since)
	}
	l.observe(p, result.ConnectError)
	expectJSON(t, l.detail("e").Changes, `[{"at":1767326746,"text":"down: no connection"},
		{"at":1767323145,"text":"stale: no result for 3 intervals and a timeout"}]`)
}

// Without a pace nothing is ever stale.
func TestNeverStale(t *testing.T) {
	l := newLab(t)
	l.board.SetEndpoint(configured("e"))
	p := l.board.OpenSeries(result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}, SeriesOptions{Pace: Pace{Timeout: 10}})
	l.observe(p, "")
	l.pass(1000 * time.Hour)
	if r := l.row(); r.State != Up {
		t.Errorf("state %s", r.State)
	}
}

func TestFailingIsBounded(t *testing.T) {
	l := newLab(t)
	var ids []result.SeriesID
	for i := range 10 {
		ids = append(ids, result.SeriesID{Module: fmt.Sprint("m", i), Prefix: "cold"})
	}
	for _, p := range l.open(ids...) {
		l.observe(p, result.Empty)
	}
	if r := l.row(); text(t, r.Failing) != `["m0","m1","m2","m3","m4","m5","m6","m7"]` {
		t.Errorf("%q", r.Failing)
	}
}

// Each change of state is listed once, whoever looks, with when it began.
func TestChangesOfState(t *testing.T) {
	for _, watched := range []bool{false, true} {
		l := newLab(t)
		all := l.open(result.SeriesID{Module: "a", Prefix: "cold"}, result.SeriesID{Module: "b", Prefix: "cold"})
		look := func() {
			if watched {
				l.board.Fleet()
				l.board.Detail("e")
			}
		}
		at := func(second int, then func()) {
			l.now = epoch().Add(time.Duration(second) * time.Second)
			look()
			if then != nil {
				then()
			}
			look()
		}
		at(10, func() { l.observe(all[0], "") })
		at(20, func() { l.observe(all[1], result.TimeoutStall) })
		at(30, func() { l.observe(all[0], result.TimeoutFirstToken) })
		at(40, func() { l.observe(all[0], result.ConnectError) })
		at(50, func() { l.observe(all[1], ""); l.board.Note("e", "b", "another answer") })
		at(60, func() { l.observe(all[0], "") })
		at(160, nil) // not yet stale
		at(400, func() { l.observe(all[0], "") })
		want := `[{"at":1767323445,"text":"up again"},
			{"at":1767323205,"text":"stale: no result for 3 intervals and a timeout"},
			{"at":1767323105,"text":"up again"},
			{"at":1767323095,"module":"b","text":"another answer"},
			{"at":1767323095,"module":"a","text":"degraded: a fails: no connection"},
			{"at":1767323075,"text":"down: no first token in time"},
			{"at":1767323065,"module":"b","text":"degraded: b fails: the answer stalls"},
			{"at":1767323055,"text":"up"}]`
		d := l.detail("e")
		expectJSON(t, d.Changes, want)
		if d.Since != epochSeconds+400 {
			t.Errorf("up since %v", d.Since)
		}
	}
}

func TestChangesAreBounded(t *testing.T) {
	l := newLab(t)
	l.open()
	for i := range 60 {
		l.board.Note("e", "m", fmt.Sprint(i))
		l.pass(time.Second)
	}
	var got []string
	for _, c := range l.detail("e").Changes {
		got = append(got, c.Text)
	}
	if len(got) != 50 || got[0] != "59" || got[49] != "10" {
		t.Errorf("%d changes: %s", len(got), strings.Join(got, " "))
	}
}

// All states are counted, and listed from the worst.
func TestStatesAreComplete(t *testing.T) {
	if got := text(t, States()); got != `["down","degraded","slow","stale","waiting","up"]` {
		t.Error(got)
	}
}

// Three of the latest five answers over an objective make an endpoint slow, and as
// many that are not make it well again; a failure is no answer.
func TestSlow(t *testing.T) {
	limit := func(seconds float64) *float64 { return &seconds }
	f := func(name string, slo *SLO, want State, ttfts ...time.Duration) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.board.SetEndpoint(configured("e"))
			o := pace()
			o.SLO = slo
			p := l.board.OpenSeries(result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}, o)
			for _, ttft := range ttfts {
				l.pass(time.Second)
				r := success(l.now)
				r.Timing.TTFT = ttft
				if ttft == 0 {
					r = failure(l.now, result.Empty)
				}
				p.Observe(r)
			}
			d := l.detail("e")
			if d.State != want || (len(d.Slow) == 1 && d.Slow[0] == "m") != (want == Slow) {
				t.Errorf("%s, slow %q; want %s", d.State, d.Slow, want)
			}
		})
	}
	const quick, slow = 100 * time.Millisecond, 900 * time.Millisecond
	half := &SLO{TTFT: limit(0.5)}
	f("one", half, Up, quick, quick, slow)
	f("two", half, Up, slow, slow)
	f("three", half, Slow, slow, slow, slow)
	f("three of five", half, Slow, slow, quick, slow, quick, slow)
	f("two of five", half, Up, slow, slow, quick, quick, slow, quick)
	f("well again", half, Up, slow, slow, slow, slow, slow, quick, quick, quick)
	f("not yet well", half, Slow, slow, slow, slow, slow, slow, quick, quick)
	f("failing", half, Down, slow, slow, slow, 0)
	f("slow after a failure", half, Slow, slow, slow, 0, slow)
	f("no objective for it", &SLO{TPOT: limit(100)}, Up, slow, slow, slow)
	f("not judged", nil, Up, slow, slow, slow)
	f("on the limit", &SLO{TTFT: limit(0.9)}, Up, slow, slow, slow)
}

func TestSlowIsTold(t *testing.T) {
	l := newLab(t)
	l.board.SetEndpoint(configured("e"))
	o, limit := pace(), 0.5
	o.SLO = &SLO{TTFT: &limit}
	p := l.board.OpenSeries(result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}, o)
	for _, ttft := range []time.Duration{1, 1, 1, 0, 0, 0} {
		l.pass(time.Second)
		r := success(l.now)
		r.Timing.TTFT = ttft*time.Second + time.Millisecond
		p.Observe(r)
	}
	expectJSON(t, l.detail("e").Changes, `[{"at":1767323051,"text":"within the objectives again"},
		{"at":1767323048,"text":"slow: m over the objective"},{"at":1767323046,"text":"up"}]`)
}

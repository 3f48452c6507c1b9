package status

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// A history keeps the latest 480 probes in order, failures without latencies.
func TestHistory(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	for i := range 1000 {
		l.now = epoch().Add(time.Duration(i) * 30 * time.Second)
		r := success(l.now)
		r.Timing.TTFT, r.Timing.TPOT = time.Duration(i)*time.Millisecond, time.Duration(i)*time.Microsecond
		if i%10 == 3 {
			r.Outcome = result.TimeoutStall
		}
		p.Observe(r)
		if i != 0 && i != 479 && i != 480 && i != 999 {
			continue
		}
		h := l.detail("e").Series[0].History
		n := min(i+1, 480)
		if len(h.At) != n || len(h.TTFT) != n || len(h.TPOT) != n || len(h.Outcome) != n {
			t.Fatalf("after %d: %d, %d, %d and %d points", i+1, len(h.At), len(h.TTFT), len(h.TPOT), len(h.Outcome))
		}
		for j := range n {
			probe := i + 1 - n + j
			failed := probe%10 == 3
			switch {
			case h.At[j] != float64(epochSeconds+30*probe):
				t.Errorf("point %d at %v", j, h.At[j])
			case failed && (h.Outcome[j] != result.TimeoutStall || h.TTFT[j] != nil || h.TPOT[j] != nil):
				t.Errorf("point %d of a failure: %v %v %v", j, h.Outcome[j], h.TTFT[j], h.TPOT[j])
			case !failed && (h.Outcome[j] != result.Success || *h.TTFT[j] != float64(probe)/1e3 || *h.TPOT[j] != float64(probe)/1e6):
				t.Errorf("point %d: %v %v %v", j, h.Outcome[j], *h.TTFT[j], *h.TPOT[j])
			}
		}
	}
}

// A duration that does not fit is not known. A time before the board, as after
// a step of the clock, is what it is.
func TestHistoryBounds(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	for _, ttft := range []time.Duration{time.Hour, time.Hour + 1, result.Absent, 0, 1499, 1500} {
		r := success(l.now.Add(-time.Hour))
		r.Timing.TTFT = ttft
		p.Observe(r)
	}
	h := l.detail("e").Series[0].History
	if got := text(t, h.TTFT); got != "[3600,null,null,0,0.000001,0.000002]" {
		t.Error(got)
	}
	if h.At[0] != epochSeconds-3600 {
		t.Errorf("at %v", h.At[0])
	}
}

// A machine without a clock of its own begins in 1970 and learns the time
// later: what came before has no place in the history.
func TestHistoryOfANewClock(t *testing.T) {
	l := &lab{t: t, now: time.Unix(60, 0)}
	l.board = newWatched(func() time.Time { return l.now })
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	l.observe(p, "")
	l.now = epoch()
	l.observe(p, result.Empty)
	l.pass(30 * time.Second)
	l.observe(p, "")
	h := l.detail("e").Series[0].History
	if got, want := text(t, h.At), "[1767323045,1767323075]"; got != want {
		t.Errorf("times %s, want %s", got, want)
	}
	if got, want := text(t, h.Outcome), `["empty","success"]`; got != want {
		t.Errorf("outcomes %s, want %s", got, want)
	}
}

// probesOf returns the kept probes of the only series of endpoint e, the latest
// first.
func (l *lab) probesOf() []map[string]any {
	l.t.Helper()
	var all []map[string]any
	if err := json.Unmarshal([]byte(text(l.t, l.detail("e").Series[0].Probes)), &all); err != nil {
		l.t.Fatal(err)
	}
	return all
}

// A probe is kept with all that `probe -o json` writes.
func TestKeptProbe(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "interactive", Prefix: "cold"})[0]
	l.observe(p, "")
	probes := l.detail("e").Series[0].Probes
	if len(probes) != 1 {
		t.Fatalf("%d probes", len(probes))
	}
	expectJSON(t, probes[0], `{"time": "2026-01-02T03:04:05Z", "endpoint": "e", "url": "http://e:8000", "module": "interactive",
		"outcome": "success", "http_status": 200, "api": "openai-chat", "engine": "vllm", "model": "llama", "prefix": "cold",
		"trace_id": "00000000000000000000000000000000", "finish_reason": "stop",
		"ttft_seconds": 0.2, "ttfo_seconds": 0.21, "tpot_seconds": 0.02, "output_tokens_per_second": 50,
		"max_gap_seconds": 0.03, "duration_seconds": 1.5, "prompt_tokens": 100, "output_tokens": 3, "token_source": "usage",
		"clock": "kernel", "merged_events": 1, "connection_reused": false, "buffered": false, "imprecise": false,
		"no_end_marker": false,
		"events": [{"at_seconds": 0.2, "tokens": 1}, {"at_seconds": 0.22, "merged": true}, {"at_seconds": 0.24, "reasoning": true}]}`)
	r := failure(l.now, result.Truncated)
	p.Observe(r)
	got := l.probesOf()
	if got[0]["outcome"] != "truncated" || got[0]["error"] != "no token" || !strings.HasPrefix(fmt.Sprint(got[0]["advice"]), "Look for a crash") {
		t.Errorf("%v", got[0])
	}
}

// The advice is that of the result, whose error may say more than its text.
func TestKeptAdvice(t *testing.T) {
	l := newLab(t)
	r := failure(l.now, result.Truncated)
	r.Err = &result.SchemeError{Err: io.ErrUnexpectedEOF}
	l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0].Observe(r)
	d := l.detail("e")
	if want := r.Advice(); !strings.Contains(want, "https://") || d.Failure.Advice != want || d.Series[0].Probes[0].Advice != want {
		t.Errorf("advice %q, and %q of the probe, want %q", d.Failure.Advice, d.Series[0].Probes[0].Advice, want)
	}
}

// At most 30 probes of a series are kept; the latest failure stays.
func TestKeptNumber(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	for i := range 100 {
		o := result.Outcome("")
		if i == 20 || i == 40 {
			o = result.Empty
		}
		l.observe(p, o)
		l.pass(time.Second)
	}
	got := l.probesOf()
	if len(got) != 30 {
		t.Fatalf("%d probes", len(got))
	}
	for i, probe := range got {
		second, outcome := 99-i, "success"
		if i == 29 {
			second, outcome = 40, "empty"
		}
		if want := epoch().Add(time.Duration(second) * time.Second).Format(time.RFC3339); probe["time"] != want || probe["outcome"] != outcome {
			t.Errorf("probe %d: %v %v, want %v %v", i, probe["time"], probe["outcome"], want, outcome)
		}
	}
}

// The more series, the fewer bytes each may keep, and never fewer than two
// probes.
func TestKeptBytes(t *testing.T) {
	for _, c := range []struct{ series, probes int }{
		{1, 30},
		{100, 30},  // 33 kB each, 30 probes of 0.8 kB fit
		{1000, 5},  // 4.9 kB each: at 304 together and 320 + 64*8 + 5 bytes a probe
		{10000, 2}, // 2.1 kB
	} {
		l := newLab(t)
		p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
		l.board.open.Store(int64(c.series))
		for range 100 {
			p.Observe(answer(l.now, 64))
		}
		got := l.probesOf()
		if len(got) != c.probes {
			t.Errorf("%d series: %d probes, want %d", c.series, len(got), c.probes)
		}
		if n := len(got[0]["events"].([]any)); n != 64 {
			t.Errorf("%d events", n)
		}
		bytes := 0
		for _, k := range p.kept {
			bytes += int(k.bytes)
		}
		if bytes != int(p.keptBytes) || bytes > allowance(c.series) {
			t.Errorf("%d series: %d bytes, counted %d, allowed %d", c.series, bytes, p.keptBytes, allowance(c.series))
		}
	}
}

// answer is a success of many tokens.
func answer(start time.Time, tokens int) *result.Result {
	r := success(start)
	r.Events = nil
	for i := range tokens {
		r.Events = append(r.Events, result.Event{At: time.Duration(200+20*i) * time.Millisecond, Tokens: 1, ReadLag: time.Microsecond})
	}
	return r
}

// However large, two probes are kept.
func TestKeptLargeProbes(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	l.board.open.Store(1_000_000)
	for range 5 {
		r := success(l.now)
		r.Answer.Text = strings.Repeat("x", 5000)
		p.Observe(r)
	}
	if n := len(l.probesOf()); n != 2 {
		t.Errorf("%d probes", n)
	}
}

// Events may take what half of the allowance leaves beside the rest.
func TestKeptEvents(t *testing.T) {
	for events, kept := range map[int]int{0: 0, 192: 192, 193: 0} {
		if k := keep(answer(epoch(), events), 2*(320+len("llama")+192*8)); len(k.events) != kept {
			t.Errorf("%d events: kept %d, want %d", events, len(k.events), kept)
		}
	}
}

// An answer that is long loses its events where there are many series, and then
// does not pretend that none was merged.
func TestKeptLongAnswers(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	l.board.open.Store(10_000)
	for range 20 {
		r := answer(l.now, 10_000)
		r.Events[7].Merged, r.Events[8].Merged = true, true
		p.Observe(r)
	}
	got := l.probesOf()
	if len(got) < 2 || got[0]["events"] != nil || got[0]["merged_events"] != 2.0 || got[0]["ttft_seconds"] != 0.2 {
		t.Errorf("%v", got)
	}
	if int(p.keptBytes) > allowance(10_000) {
		t.Errorf("%d bytes", p.keptBytes)
	}
	l.board.open.Store(1)
	p.Observe(answer(l.now, 10_000))
	if n := len(l.probesOf()[0]["events"].([]any)); n != 10_000 {
		t.Errorf("%d events where there is room", n)
	}
}

// Events that do not fit are no events, rather than wrong ones.
func TestKeptEventsThatDoNotFit(t *testing.T) {
	for _, e := range []result.Event{{At: time.Hour + time.Second}, {At: -1}, {Tokens: 65536}, {Tokens: -1}} {
		r := success(epoch())
		r.Events = append(r.Events, e)
		if k := keep(r, 1<<20); k.events != nil || k.merged != 1 {
			t.Errorf("%+v is kept", e)
		}
	}
	if k := keep(success(epoch()), 1<<20); len(k.events) != 3 {
		t.Error("events that fit are not kept")
	}
}

// The sizes that are counted are at least those in memory.
func TestKeptSizes(t *testing.T) {
	if n := reflect.TypeFor[keptProbe]().Size(); n > keptBytes || n < keptBytes/2 {
		t.Errorf("a kept probe has %d bytes, counted as %d", n, keptBytes)
	}
	if n := reflect.TypeFor[keptEvent]().Size(); n != eventBytes {
		t.Errorf("a kept event has %d bytes, counted as %d", n, eventBytes)
	}
}

// What is observed is neither changed nor held.
func TestResultIsLeftAlone(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	r, same := failure(l.now, result.Empty), failure(l.now, result.Empty)
	r.Events, same.Events = success(l.now).Events, success(l.now).Events
	p.Observe(r)
	if !reflect.DeepEqual(r, same) {
		t.Errorf("%+v", r)
	}
	r.Events[0].At = time.Hour
	if got := l.probesOf()[0]["events"].([]any)[0].(map[string]any)["at_seconds"]; got != 0.2 {
		t.Errorf("the events of the prober are held: %v", got)
	}
}

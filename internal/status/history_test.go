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

// answer is a success of many tokens.
func answer(start time.Time, tokens int) *result.Result {
	r := success(start)
	r.Events = nil
	for i := range tokens {
		r.Events = append(r.Events, result.Event{At: time.Duration(200+20*i) * time.Millisecond, Tokens: 1, ReadLag: time.Microsecond})
	}
	return r
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

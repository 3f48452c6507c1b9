package status

import (
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
	l.board = NewBoard(func() time.Time { return l.now })
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

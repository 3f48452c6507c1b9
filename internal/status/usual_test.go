package status

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// What is usual is the median of the successes of the day before, and nothing of fewer
// than ten.
func TestUsual(t *testing.T) {
	l := newLab(t)
	id := result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}
	p := l.open(id)[0]
	observe := func(n int, o result.Outcome, ttft, tpot time.Duration) {
		for range n {
			r := success(l.now)
			r.Outcome, r.Timing.TTFT, r.Timing.TPOT = o, ttft, tpot
			p.Observe(r)
			l.pass(time.Minute)
		}
	}
	want := func(when string, before time.Time, ttft, tpot float64) {
		t.Helper()
		first, further := l.board.Usual(id, before)
		if ttft == 0 {
			if first != nil || further != nil {
				t.Errorf("%s: %v, %v", when, first, further)
			}
			return
		}
		if first == nil || further == nil || *first != ttft || *further != tpot {
			t.Errorf("%s: %v, %v, want %v, %v", when, first, further, ttft, tpot)
		}
	}
	observe(20, result.Success, 7*time.Second, time.Second)
	l.pass(25 * time.Hour) // what was before is too old
	observe(5, result.Success, 200*time.Millisecond, 20*time.Millisecond)
	observe(50, result.TimeoutStall, time.Second, time.Second) // failures have no latency
	want("few", l.now, 0, 0)
	observe(6, result.Success, 300*time.Millisecond, 30*time.Millisecond)
	want("enough", l.now, 0.3, 0.03) // 5 of the one, 6 of the other
	slow := l.now
	observe(30, result.Success, 2*time.Second, 200*time.Millisecond)
	want("before it was slow", slow, 0.3, 0.03)
	want("now", l.now, 2, 0.2)
	if first, _ := l.board.Usual(result.SeriesID{Endpoint: "f"}, l.now); first != nil {
		t.Errorf("another endpoint: %v", *first)
	}
}

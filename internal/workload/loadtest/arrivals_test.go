package loadtest

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
)

// Over a rise of 10 s the rate goes from 0 to 8 per second: 4t²/10 requests after t, 40 in the rise, and 8 per second then.
func TestRisen(t *testing.T) {
	for work, want := range map[float64]time.Duration{
		0: 0, 10: 5 * time.Second, 40: 10 * time.Second, 48: 11 * time.Second, 840: 110 * time.Second,
	} {
		if got := risen(work, 8, 10*time.Second); (got - want).Abs() > time.Microsecond {
			t.Errorf("%.0f requests after %s, want %s", work, got, want)
		}
	}
	if got := risen(3, 1, 0); got != 3*time.Second {
		t.Errorf("without a rise after %s", got)
	}
}

// Requests of a Poisson process of 20 per second: of a minute with a rise of 6 s 20*(60-3) = 1140, with a standard
// deviation of 34, and those of disjoint seconds are independent: variance over mean is 1.
func TestPoisson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1000, 100*time.Millisecond)
		r := (&runner{plan: planOf(&config.LoadTest{RequestsPerSecond: []float64{20}}), driver: q, seed: 1}).run(t.Context())
		if n := len(q.asked); r.End != Completed || math.Abs(float64(n)-1140) > 4*34 {
			t.Errorf("ended %s with %d requests", r.End, n)
		}
		counts := make([]float64, 54)
		for _, at := range q.asked {
			if i := int(at.Seconds()) - 6; i >= 0 && i < len(counts) {
				counts[i]++
			}
		}
		sum, squares := 0.0, 0.0
		for _, n := range counts {
			sum, squares = sum+n, squares+n*n
		}
		mean := sum / 54
		// The standard deviation of the ratio is sqrt(2/53).
		if ratio := (squares/54 - mean*mean) / mean; math.Abs(ratio-1) > 4*math.Sqrt(2.0/53) {
			t.Errorf("variance over mean is %.2f", ratio)
		}
		if l := r.Levels[0]; l.Full != 6*time.Second || len(q.users) > 20 {
			t.Errorf("full at %s, %d users", l.Full, len(q.users))
		}
	})
}

// A server that stops for 5 s delays those that were to be sent meanwhile: each counts from its plan.
func TestStalledServerIsInTheLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, 10*time.Millisecond)
		go func() {
			time.Sleep(30 * time.Second)
			q.servers <- struct{}{}
			time.Sleep(5 * time.Second)
			<-q.servers
		}()
		r := Run(t.Context(), planOf(&config.LoadTest{RequestsPerSecond: []float64{10}}), q, nil)
		slow := 0
		for _, s := range r.Levels[0].Samples {
			if s.TTFT > time.Second {
				slow++
			}
		}
		// Those of the first 4 s of the stall wait for more than 1 s, and 0.1 s of requests for each of theirs queue then.
		if slow < 25 || slow > 65 {
			t.Errorf("%d requests were slow, want about 40", slow)
		}
	})
}

// The trace has requests at 0, 1 and 5 s, and begins again 2.5 s later. At speed 2 over a rise of 1 s, in which half of
// a second of it passes twice as fast, 1 s of it is over after 1 s, and each further second takes half a second.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trace := []config.TracedRequest{{At: 0, Input: 10, Output: 1}, {At: time.Second, Input: 20, Output: 2}, {At: 5 * time.Second, Input: 30, Output: 3}}
		q := newQueue(100, 10*time.Millisecond)
		l := &config.LoadTest{TraceFile: "t.csv", Trace: trace, TraceSpeeds: []float64{2}, Duration: model.Duration(10 * time.Second)}
		if r := Run(t.Context(), planOf(l), q, nil); r.End != Completed {
			t.Fatalf("ended %s %q", r.End, r.Text)
		}
		var want []time.Duration
		for _, at := range []float64{0, 1, 3, 4.25, 4.75, 6.75, 8, 8.5} {
			want = append(want, time.Duration(at*float64(time.Second)))
		}
		if !slices.EqualFunc(q.asked, want, func(a, b time.Duration) bool { return (a - b).Abs() < time.Microsecond }) {
			t.Errorf("requests at %v, want %v", q.asked, want)
		}
		for i, n := range q.inputs {
			if n != trace[i%3].Input {
				t.Errorf("request %d has %d tokens", i, n)
			}
		}
	})
}

func TestSpan(t *testing.T) {
	trace := []config.TracedRequest{{At: 0}, {At: time.Second}, {At: 2 * time.Second}, {At: 3 * time.Second}}
	if got := span(trace); got != 4*time.Second {
		t.Errorf("%v: %s", trace, got)
	}
}

// 10 users who are answered in 1 s and think for 4 s on average send 2 requests per second.
func TestThinkTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(10, time.Second)
		l := &config.LoadTest{Users: []int{10}, ThinkTime: model.Duration(4 * time.Second), Duration: model.Duration(30 * time.Minute)}
		(&runner{plan: planOf(l), driver: q, seed: 1}).run(t.Context())
		// 3600 cycles, each with a standard deviation of 4 s over 5 s: that of their number is 48.
		if n := float64(len(q.asked)); math.Abs(n-3600) > 4*48 {
			t.Errorf("%.0f requests in half an hour", n)
		}
	})
}

// What is drawn depends on the seed alone.
func TestSeed(t *testing.T) {
	asked := func(seed uint64) (all []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(10, 10*time.Millisecond)
			(&runner{plan: planOf(&config.LoadTest{RequestsPerSecond: []float64{2}}), driver: q, seed: seed}).run(t.Context())
			all = q.asked
		})
		return all
	}
	if one := asked(1); !slices.Equal(one, asked(1)) || slices.Equal(one, asked(2)) {
		t.Error("the same seed does not draw the same")
	}
}

// A level is over when it has as many requests as are kept.
func TestMostSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(2000, 500*time.Millisecond)
		r := Run(t.Context(), planOf(&config.LoadTest{RequestsPerSecond: []float64{1000}}), q, nil)
		// After 53 s: 1000 per second from the middle of the rise on, and half a second until they end.
		if l := r.Levels[0]; r.End != Completed || math.Abs((l.Stop-53500*time.Millisecond).Seconds()) > 1.5 || len(l.Samples) < mostSamples {
			t.Errorf("ended %s, stopped at %s after %d requests", r.End, l.Stop, len(l.Samples))
		}
	})
}

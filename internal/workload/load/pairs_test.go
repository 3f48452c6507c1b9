package load

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload/testdata/lab"
)

func TestBenefit(t *testing.T) {
	l := newLab()
	pair := func(cold, second time.Duration) { l.Run(lab.Probe(1000, cold), warm(lab.Probe(1000, second))) }
	expect := func(what string, value, lower, upper float64) {
		t.Helper()
		if l.Last == nil || l.Last.Benefit == nil {
			t.Fatalf("%s: no benefit", what)
		}
		if b := *l.Last.Benefit; !near(b.Value, value) || !near(b.Lower, lower) || !near(b.Upper, upper) {
			t.Errorf("%s: %+v, want %v between %v and %v", what, b, value, lower, upper)
		}
	}
	for _, d := range []time.Duration{30, 10, 50, 20, 40} {
		pair(200*ms+d*ms, 200*ms)
	}
	if l.Last != nil {
		t.Fatalf("5 pairs give %+v", l.Last)
	}
	pair(200*ms, 260*ms)
	expect("6 pairs", 0.025, -0.06, 0.05) // -60 10 20 30 40 50
	for d := range 60 {
		pair(200*ms+time.Duration(d)*ms, 100*ms)
	}
	expect("the last 60", 0.1295, 0.121, 0.138) // the 22nd of 100 to 159, and the 39th
	l.Now = l.Now.Add(pairReach - 30*time.Second)
	l.Run()
	expect("of them 29 in the last day", 0.145, 0.139, 0.151) // 131 to 159; of 29 the 9th and the 21st
	l.Now = l.Now.Add(time.Minute)
	if f := l.Run(); f != nil {
		t.Errorf("after a day: %+v", f)
	}
}

func TestNoPair(t *testing.T) {
	cold, second := func() *result.Result { return lab.Probe(9, 20*ms) }, func() *result.Result { return warm(lab.Probe(9, 10*ms)) }
	for name, run := range map[string][]*result.Result{
		"cold failed":    {lab.With(cold(), func(r *result.Result) { r.Outcome = result.Truncated })},
		"warm failed":    {cold(), lab.With(second(), func(r *result.Result) { r.Outcome = result.RateLimited })},
		"warm imprecise": {cold(), lab.With(second(), func(r *result.Result) { r.Imprecise = true })},
		"cold buffered":  {lab.With(cold(), func(r *result.Result) { r.Buffered = true }), second()},
		"no first token": {cold(), lab.With(second(), func(r *result.Result) { r.Timing.TTFT = result.Absent })},
		"two cold":       {cold(), cold()},
		"the other way":  {second(), cold()},
	} {
		l := newLab()
		for range 2 * minPairs {
			if l.Run(run...); l.Last != nil {
				t.Errorf("%s: %+v", name, l.Last)
				break
			}
		}
	}
}

func TestHitRatio(t *testing.T) {
	l := newLab()
	expect := func(what string, want float64) {
		t.Helper()
		if l.Last == nil || l.Last.HitRatio == nil || !near(*l.Last.HitRatio, want) {
			t.Errorf("%s: %+v, want %v", what, l.Last, want)
		}
	}
	if l.Run(warm(lab.Probe(1000, ms))); l.Last != nil {
		t.Errorf("a reply without a count: %+v", l.Last)
	}
	l.Run(warm(cached(lab.Probe(1000, ms), 0)))
	expect("a miss", 0)
	l.Run(warm(cached(lab.Probe(3000, ms), 2000)))
	expect("sums, not the mean of ratios", 0.5)
	l.Run(lab.With(warm(cached(lab.Probe(1000, ms), 1000)), func(r *result.Result) { r.Outcome = result.StreamError }))
	l.Run(lab.With(warm(cached(lab.Probe(1000, ms), 1000)), func(r *result.Result) { r.Concurrency = 1 }))
	l.Run(warm(cached(lab.Probe(1000, ms), 1001)))
	expect("what does not count", 0.5)
	for range 60 {
		l.Run(cached(lab.Probe(1000, ms), 0), warm(cached(lab.Probe(1000, ms), 960)))
	}
	expect("the last 60", 0.96)
	l.Now = l.Now.Add(pairReach)
	if f := l.Run(); f.HitRatio != nil {
		t.Errorf("after a day: %v", *f.HitRatio)
	}
}

// Replies that report no cached tokens are not believed if the second of a pair is
// so much faster that only a cache explains it, nor before that is known.
func TestNoHits(t *testing.T) {
	f := func(what string, pairs int, cold, second time.Duration, coldCached, warmCached int, want bool) {
		t.Helper()
		l := newLab()
		for range pairs {
			l.Run(cached(lab.Probe(1000, cold), coldCached), warm(cached(lab.Probe(1000, second), warmCached)))
		}
		hits, reported := l.Last != nil && l.Last.HitRatio != nil, l.Last != nil && l.Last.ColdReported
		if hits != want || reported != want {
			t.Errorf("%s: hit ratio %v, cold replies reported %v, want %v", what, hits, reported, want)
		}
	}
	f("a benefit that only a cache explains", 6, 500*ms, 61*ms, 0, 0, false)
	f("a quarter of the cold half", 6, 400*ms, 300*ms, 0, 0, false)
	f("less than a quarter", 6, 400*ms, 301*ms, 0, 0, true)
	f("no benefit", 6, 400*ms, 400*ms, 0, 0, true)
	f("too few pairs to know", 5, 400*ms, 400*ms, 0, 0, false)
	f("a count that is not always 0", 6, 500*ms, 61*ms, 0, 960, true)
	f("a cold reply with a count", 6, 500*ms, 61*ms, 128, 0, true)

	l := newLab()
	for range 5 {
		l.Run(cached(lab.Probe(1000, 500*ms), 0), warm(cached(lab.Probe(1000, 61*ms), 0)))
	}
	l.Run(cached(lab.Probe(1000, 500*ms), 0), warm(cached(lab.Probe(1000, 500*ms), 0)))
	if l.Last.HitRatio == nil {
		t.Error("a benefit that may be none contradicts nothing")
	}
	if b := l.Last.Benefit; b == nil || b.Lower != 0 {
		t.Errorf("benefit %+v, want one from 0 on", b)
	}
}

func TestColdCached(t *testing.T) {
	l := newLab()
	for _, step := range []struct {
		name     string
		r        *result.Result
		reported bool
		want     uint64
	}{
		{"unknown", lab.Probe(256, ms), false, 0},
		{"warm", warm(cached(lab.Probe(256, ms), 256)), false, 0},
		{"asked again and again", lab.With(cached(lab.Probe(256, ms), 256), func(r *result.Result) { r.Length = 0 }), false, 0},
		{"nothing", cached(lab.Probe(256, ms), 0), true, 0},
		{"the template", cached(lab.Probe(256, ms), 64), true, 0},
		{"more", cached(lab.Probe(256, ms), 65), true, 1},
		{"of a failure", lab.With(cached(lab.Probe(256, ms), 128), func(r *result.Result) { r.Outcome = result.CheckFailed }), true, 2},
		{"in a burst", lab.With(cached(lab.Probe(256, ms), 128), func(r *result.Result) { r.Concurrency = 1 }), true, 3},
	} {
		f := l.Run(step.r)
		if f == nil {
			f = &Finding{}
		}
		if f.ColdReported != step.reported || f.ColdCached != step.want {
			t.Errorf("%s: %d, reported %v, want %d, %v", step.name, f.ColdCached, f.ColdReported, step.want, step.reported)
		}
	}
}

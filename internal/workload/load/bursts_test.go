package load

import (
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload/testdata/lab"
)

// newBurstLab returns an estimate of bursts with an objective of TTFT; 0 is none.
func newBurstLab(ttft time.Duration) *lab.Lab[*BurstEstimate, *BurstFinding] {
	return lab.New[*BurstEstimate, *BurstFinding](func() *BurstEstimate {
		return &BurstEstimate{objectives: &series.Objectives{TTFT: ttft}}
	})
}

// request returns one of a burst of n, sent so long after noon, with 100 output
// tokens in the two seconds after its first. Its connection took 1 ms + 2 ms + 4 ms
// to set up.
func request(n int, sent, ttft time.Duration) *result.Result {
	r := lab.Probe(256, ttft)
	r.Concurrency, r.Tokens.Output = n, 100
	r.Sent = lab.Noon().Add(sent)
	r.Timing.Phases = [result.NumPhases]time.Duration{result.PhaseDNS: ms, result.PhaseConnect: 2 * ms, result.PhaseTLS: 4 * ms}
	r.Timing.Duration = 7*ms + ttft + 2*time.Second
	return r
}

func failed(r *result.Result, o result.Outcome) *result.Result {
	r.Outcome = o
	return r
}

// level returns a burst of n with the same TTFT, but for some that failed.
func level(n int, ttft time.Duration, failures ...result.Outcome) []*result.Result {
	var all []*result.Result
	for i := range n {
		r := request(n, 0, ttft)
		if i < len(failures) {
			r.Outcome = failures[i]
		}
		all = append(all, r)
	}
	return all
}

func TestBursts(t *testing.T) {
	f := func(name string, want Burst, run ...*result.Result) {
		t.Helper()
		l := newBurstLab(0)
		l.Run(run...)
		if l.Last == nil || len(l.Last.Bursts) != 1 || l.Last.Knee != nil {
			t.Fatalf("%s: %+v", name, l.Last)
		}
		got := l.Last.Bursts[0]
		if !near(got.TokensPerSecond, want.TokensPerSecond) {
			t.Errorf("%s: %v tokens/s, want %v", name, got.TokensPerSecond, want.TokensPerSecond)
		}
		got.TokensPerSecond = want.TokensPerSecond
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	sentNever := func(r *result.Result) { r.Sent = time.Time{} }
	f("one", Burst{1, 0, 100 / 2.5, 0}, request(1, 0, 500*ms))
	// From 1 ms to 3 ms + 498 ms + 2 s.
	f("two", Burst{2, 0, 200 / 2.5, 2 * ms}, request(2, 3*ms, 498*ms), request(2, ms, 100*ms))
	// The one that failed started the burst, and its tokens do not count.
	f("one failed", Burst{2, 1, 100 / 2.5, 20 * ms}, failed(request(2, 0, 9*time.Second), result.TimeoutTotal), request(2, 20*ms, 480*ms))
	f("one without a connection", Burst{2, 1, 100 / 2.5, 0},
		lab.With(failed(request(2, 0, 0), result.ConnectError), sentNever), request(2, 20*ms, 500*ms))
	f("all failed", Burst{2, 2, 0, ms}, failed(request(2, 0, 0), result.Overloaded), failed(request(2, ms, 0), result.Overloaded))
	f("none connected", Burst{1, 1, 0, -1}, lab.With(failed(request(1, 0, 0), result.DNSError), sentNever))
	f("a count that is not reported", Burst{2, 0, 0, 0},
		request(2, 0, 500*ms), lab.With(request(2, 0, 500*ms), func(r *result.Result) { r.Tokens.Output = -1 }))
	f("a count of events", Burst{1, 0, 0, 0},
		lab.With(request(1, 0, 500*ms), func(r *result.Result) { r.Tokens.Source = result.TokensFromEvents }))
	f("phases that were not", Burst{1, 0, 100 / 2.5, 0}, lab.With(request(1, 0, 500*ms), func(r *result.Result) {
		r.Timing.Phases = [result.NumPhases]time.Duration{result.Absent, result.Absent, result.Absent}
		r.Timing.Duration -= 7 * ms
	}))
}

func TestLatestBursts(t *testing.T) {
	l := newBurstLab(time.Second)
	l.Run(append(append(level(1, 100*ms), level(4, 200*ms)...), level(16, 2*time.Second)...)...)
	if f := l.Last; len(f.Bursts) != 3 || f.Bursts[1].Concurrency != 4 || !near(f.Bursts[1].TokensPerSecond, 400/2.2) || f.Knee == nil {
		t.Fatalf("three levels: %+v", f)
	}
	l.Run()
	l.Run(lab.Probe(256, ms))
	if len(l.Last.Bursts) != 3 || l.Last.Knee == nil {
		t.Errorf("a run without bursts: %+v", l.Last)
	}
	l.Run(level(1, 100*ms)...)
	if len(l.Last.Bursts) != 1 || l.Last.Knee != nil {
		t.Errorf("a shorter run: %+v", l.Last)
	}
}

func TestKnee(t *testing.T) {
	const objective = time.Second
	f := func(name string, want int, levels ...[]*result.Result) {
		t.Helper()
		l := newBurstLab(objective)
		var run []*result.Result
		for _, v := range levels {
			run = append(run, v...)
		}
		got := 0
		if l.Run(run...); l.Last.Knee != nil {
			got = l.Last.Knee.Concurrency
		}
		if got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	slow := func(n, late int) []*result.Result {
		all := level(n, objective)
		for _, r := range all[:late] {
			r.Timing.TTFT = objective + 1
		}
		return all
	}
	f("all meet it", 0, level(1, ms), level(16, objective))
	f("the second misses it", 4, level(1, ms), level(4, 2*objective), level(16, 3*objective))
	// 9 of 10 must meet it; of 16, 15 (nine tenths are 14.4); of 4, all.
	f("1 of 10 late", 0, slow(10, 1))
	f("2 of 10 late", 10, slow(10, 2))
	f("1 of 16 late", 0, slow(16, 1))
	f("2 of 16 late", 16, slow(16, 2))
	f("1 of 4 late", 4, slow(4, 1))
	unknown := func(n, without int) []*result.Result {
		all := level(n, objective)
		for _, r := range all[:without] {
			r.Timing.TTFT = result.Absent
		}
		return all
	}
	f("some without a TTFT", 0, level(1, ms), unknown(4, 2))
	f("all without a TTFT", 0, level(1, ms), unknown(4, 4))
	f("failures are late", 4, level(1, ms), level(4, ms, result.HTTPError))
	f("few failures", 0, level(1, ms), level(20, ms, result.HTTPError, result.StreamError))
	f("the first is turned away", 8, level(8, ms, result.RateLimited, result.Overloaded))
	f("the first does not answer", 1, level(1, ms, result.TimeoutFirstToken))
	f("the first fails for another reason", 0, level(1, ms, result.Unauthorized))
	f("and one for that reason among others", 0, level(4, ms, result.RateLimited, result.TLSError))

	l := newBurstLab(0)
	if l.Run(level(4, time.Hour)...); l.Last.Knee != nil {
		t.Errorf("without an objective: %+v", l.Last.Knee)
	}
	l = newBurstLab(objective)
	l.Run(append(level(1, ms), level(4, 2*objective)...)...)
	if k := l.Last.Knee; !near(k.TokensPerSecond, 100) { // 400 tokens in 2 s + 2 s
		t.Errorf("%v tokens/s at the knee, want 100", k.TokensPerSecond)
	}
}

// A wrong answer is no failure of the server under load.
func TestWrongAnswersInBursts(t *testing.T) {
	l := newBurstLab(300 * ms)
	l.Run(level(4, 100*ms, result.CheckFailed, result.CheckFailed, result.CheckFailed)...)
	if b := l.Last.Bursts[0]; b.Failed != 0 || b.TokensPerSecond == 0 || l.Last.Knee != nil {
		t.Errorf("%+v, knee %+v; want none failed, some tokens and no knee", b, l.Last.Knee)
	}
}

// The largest burst that met the objective, as all smaller ones did.
func TestCarried(t *testing.T) {
	const objective = time.Second
	f := func(name string, objective time.Duration, want *Burst, levels ...[]*result.Result) {
		t.Helper()
		l := newBurstLab(objective)
		l.Run(slices.Concat(levels...)...)
		got := l.Last.MaxGood
		if (got == nil) != (want == nil) || got != nil && (got.Concurrency != want.Concurrency || !near(got.TokensPerSecond, want.TokensPerSecond)) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	// 400 tokens in 1 s + 2 s
	f("all meet it", objective, &Burst{Concurrency: 4, TokensPerSecond: 400.0 / 3}, level(1, ms), level(4, time.Second))
	f("the third misses it", objective, &Burst{Concurrency: 4, TokensPerSecond: 400.0 / 3}, level(1, ms), level(4, time.Second), level(16, 2*time.Second))
	f("a larger one would meet it", objective, &Burst{Concurrency: 1, TokensPerSecond: 100 / 2.001}, level(1, ms), level(4, 2*time.Second), level(16, ms))
	f("the first misses it", objective, nil, level(1, 2*time.Second), level(4, ms))
	f("one failed", objective, &Burst{Concurrency: 1, TokensPerSecond: 100 / 2.001}, level(1, ms), level(20, ms, result.HTTPError))
	f("no objective", 0, nil, level(1, ms))
}

func TestCanceledBurstSaysNothing(t *testing.T) {
	l := newBurstLab(time.Second)
	l.Run(request(1, 0, time.Millisecond))
	f := l.Run(lab.With(request(1, 0, 9*time.Second), func(r *result.Result) { r.Outcome = result.Canceled }))
	if f == nil || f.Knee != nil || f.Bursts[0].Failed != 0 {
		t.Errorf("a canceled burst counts: %+v", f)
	}
}

package fleet

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// freezing is a simulated server, asked without a network. From a minute to half of an hour on
// it freezes for a minute.
type freezing struct {
	handler    http.Handler
	firstToken time.Duration // the limit of a request
}

func newFreezing(limit time.Duration) *freezing {
	s := simulator.New(simulator.Options{PrefillTokensPerSecond: 1e4, DecodeStep: 20 * time.Millisecond, Seed: 1})
	time.AfterFunc(29*time.Minute, func() { s.Hang(true) })
	time.AfterFunc(30*time.Minute, func() { s.Hang(false) })
	return &freezing{s.Handler(), limit}
}

// ask returns the time to the first token of a request; negative is none within the
// limit.
func (f *freezing) ask(ctx context.Context) time.Duration {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(f.firstToken, cancel)
	w := &tokenWriter{ResponseRecorder: httptest.NewRecorder(), seen: func() { late.Stop() }}
	start := time.Now()
	func() {
		defer func() { _ = recover() }() // which is how a handler ends a connection
		f.handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/completions",
			strings.NewReader(`{"prompt":"one two three","max_tokens":4,"stream":true}`)))
	}()
	if w.first.IsZero() {
		return result.Absent
	}
	return w.first.Sub(start)
}

// tokenWriter notes when a reply has its first token.
type tokenWriter struct {
	*httptest.ResponseRecorder
	first time.Time
	seen  func()
}

func (w *tokenWriter) Write(b []byte) (int, error) {
	if w.first.IsZero() && strings.Contains(string(b), `"text":"`) {
		w.first = time.Now()
		w.seen()
	}
	return w.ResponseRecorder.Write(b)
}

func (f *freezing) Close() {}

// Run implements Runner.
func (f *freezing) Run(ctx context.Context, due time.Time) ([]*result.Result, *result.Skip) {
	start := time.Now()
	r := served(start, f.ask(ctx))
	r.Scheduled, r.Sent, r.Kind = due, start, api.Generation
	r.Timing.Duration = time.Since(start)
	if r.Timing.TTFT < 0 {
		r.Outcome = result.TimeoutFirstToken
	}
	return []*result.Result{r}, nil
}

// experience is what users had of a server: how many there were, how many waited for longer
// than the objective, and the 99th percentile of the time to first token; +Inf is
// no token.
type experience struct{ users, bad, p99 float64 }

// openLoop is the truth: users who come one every interval, whether those before them
// have been served or not.
func openLoop(f *freezing, offset, interval, span, objective time.Duration) (e experience) {
	var mu sync.Mutex
	var all []float64
	var wg sync.WaitGroup
	time.Sleep(offset)
	for range int(span / interval) {
		wg.Go(func() {
			wait := f.ask(context.Background())
			mu.Lock()
			defer mu.Unlock()
			e.users++
			if wait < 0 || wait > objective {
				e.bad++
			}
			if wait < 0 {
				all = append(all, math.Inf(1))
			} else {
				all = append(all, wait.Seconds())
			}
		})
		time.Sleep(interval)
	}
	wg.Wait()
	slices.Sort(all)
	e.p99 = all[int(math.Ceil(0.99*float64(len(all))))-1]
	return e
}

// published is what the page says after an hour of probes of such a server.
func published(t *testing.T, slo string, limit time.Duration) (e experience, first time.Duration) {
	l := workLab(t, `
modules: {m: {interval: 15s, timeout: 2m, timeouts: {first_token: `+limit.String()+`}}}
endpoints: [{name: e, url: "http://127.0.0.1:1", modules: [m], slo: {`+slo+`}}]`)
	probes := l.endpoint("e").tasks[0]
	probes.runner.Close()
	runner := &firstRun{freezing: newFreezing(limit), began: time.Now()}
	probes.runner = runner
	l.schedule(l.active.Load())
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour-time.Second)
	defer cancel()
	if err := l.Probing.Run(ctx); err != nil {
		t.Fatal(err)
	}
	p := l.page()
	e = experience{
		users: p.Sum("inference_probe_slo_eligible_total", "slo", "ttft"),
		bad:   p.Sum("inference_probe_slo_bad_total", "slo", "ttft"),
		p99:   math.Inf(1),
	}
	if p.Has("inference_probe_ttft_window_seconds", "stat", "p99") {
		e.p99 = p.Sum("inference_probe_ttft_window_seconds", "stat", "p99")
		if lower, upper := p99Bucket(t, p); limit > time.Minute && (e.p99 <= lower || e.p99 > upper) {
			t.Errorf("p99 of the histogram is in (%v, %v], that of the window %v", lower, upper, e.p99)
		}
	}
	d, _ := l.Board.Detail("e")
	if want := 1 - e.bad/e.users/0.01/720; math.Abs(*d.BudgetLeft-want) > 1e-4 { // an hour of 30 days
		t.Errorf("%v of the error budget is left, want %v", *d.BudgetLeft, want)
	}
	return e, runner.first
}

// firstRun notes how long after its begin the first run came.
type firstRun struct {
	*freezing
	began time.Time
	first time.Duration
}

func (f *firstRun) Run(ctx context.Context, due time.Time) ([]*result.Result, *result.Skip) {
	if f.first == 0 {
		f.first = time.Since(f.began)
	}
	return f.freezing.Run(ctx, due)
}

// While a server freezes for a minute four users come, one every 15 s. Of probes that
// wait for it one runs; of those that are given up after 25 s two do, and a pause of two
// intervals follows.
func TestCoordinatedOmission(t *testing.T) {
	for _, c := range []struct {
		limit      time.Duration
		probes     float64 // that are bad
		paused     float64 // users of whom nothing is known
		hasNoToken bool    // at the 99th percentile
	}{
		{limit: 90 * time.Second, probes: 1},
		{limit: 25 * time.Second, probes: 2, paused: 2, hasNoToken: true},
	} {
		t.Run(c.limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				without, _ := published(t, "ttft: 2s", c.limit)
				with, offset := published(t, "ttft: 2s, correct_coordinated_omission: true", c.limit)
				truth := openLoop(newFreezing(c.limit), offset, 15*time.Second, time.Hour, 2*time.Second)
				t.Logf("truth %+v, without %+v, with %+v", truth, without, with)
				if truth.bad != 4 || without.bad != c.probes || without.p99 > 0.1 {
					t.Errorf("without waiting users %+v, truth %+v", without, truth)
				}
				if with.users != truth.users-c.paused || with.bad != truth.bad {
					t.Errorf("with waiting users %+v, truth %+v", with, truth)
				}
				if c.hasNoToken != math.IsInf(truth.p99, 1) || with.p99 != truth.p99 && math.Abs(with.p99-truth.p99) > 0.1 {
					t.Errorf("p99 with waiting users %v, truth %v", with.p99, truth.p99)
				}
			})
		})
	}
}

// Users whose probe was given up are counted where they waited too long for certain.
func TestWaited(t *testing.T) {
	start := time.Unix(1000, 0)
	f := func(name string, at, want time.Duration, counts bool, change func(r *result.Result)) {
		t.Helper()
		r := served(start, 50*time.Second)
		r.Sent = start.Add(time.Second)
		r.Timing.Duration = 60 * time.Second
		change(r)
		if got, ok := waited(r, start.Add(at), 2*time.Second); ok != counts || ok && got != want {
			t.Errorf("%s: %s, %t; want %s, %t", name, got, ok, want, counts)
		}
	}
	served := func(*result.Result) {}
	failed := func(r *result.Result) { r.Outcome, r.Timing.TTFT = result.TimeoutFirstToken, result.Absent }
	f("until the token", 15*time.Second, 36*time.Second, true, served)
	f("before the probe", -time.Second, 0, false, served)
	f("with the token", 51*time.Second, 0, false, served)
	f("while tokens came", 55*time.Second, 0, false, served)
	f("given up", 57*time.Second, result.Absent, true, failed)
	f("given up too soon to know", 58*time.Second, 0, false, failed)
	f("imprecise", 15*time.Second, 0, false, func(r *result.Result) { r.Imprecise = true })
	f("canceled", 15*time.Second, 0, false, func(r *result.Result) { r.Outcome, r.Timing.TTFT = result.Canceled, result.Absent })
	f("first token not known", 15*time.Second, 0, false, func(r *result.Result) { r.Timing.TTFT = result.Absent })
}

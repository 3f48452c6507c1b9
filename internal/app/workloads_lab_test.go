package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/schedule"
)

// The tests of workloads hold the page of metrics against what a simulated
// server knows that it did, which is true however late the machine is. Those that
// measure no time are parallel: they run after all others.

// brisk is a healthy server: each token takes 5 ms, 1000 tokens of a prompt
// 25 ms.
func brisk() simulator.Options {
	return simulator.Options{PrefillTokensPerSecond: 40_000, DecodeStep: 5 * time.Millisecond, DecodeStepPerSequence: -1, Seed: 1}
}

// witness is a simulated server that knows the requests of probes in the order
// of their arrival.
type witness struct {
	*simulator.Server
	t   testing.TB
	url string

	mu  sync.Mutex
	ids []string
}

// newWitness serves a simulated server until the test ends.
func newWitness(t *testing.T, o simulator.Options) *witness {
	t.Helper()
	w := &witness{Server: simulator.New(o), t: t}
	w.url = serveHTTP(t, w)
	return w
}

// ServeHTTP passes a request on, and remembers those of probes.
func (w *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if parts := strings.Split(r.Header.Get("Traceparent"), "-"); len(parts) == 4 {
		w.mu.Lock()
		w.ids = append(w.ids, parts[1])
		w.mu.Unlock()
	}
	w.Handler().ServeHTTP(rw, r)
}

// requests is how many requests of probes have arrived.
func (w *witness) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ids)
}

// records returns the truth about all requests of probes, when all have ended.
func (w *witness) records() []simulator.Record {
	w.t.Helper()
	w.mu.Lock()
	ids := slices.Clone(w.ids)
	w.mu.Unlock()
	all := make([]simulator.Record, len(ids))
	for i, id := range ids {
		deadline := time.Now().Add(patience)
		for {
			record, ok := w.Request(id)
			if all[i] = record; ok && record.Complete {
				break
			}
			if time.Now().After(deadline) {
				w.t.Fatalf("request %d of %d has not ended, known: %t", i, len(ids), ok)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return all
}

// firstToken is how long a request waited for its first token, in seconds.
func firstToken(r *simulator.Record) float64 {
	for _, e := range r.Events {
		if e.Tokens > 0 {
			return e.At.Sub(r.Arrival).Seconds()
		}
	}
	return 0
}

// workLab is a fleet by a configuration, whose tasks the test runs.
func workLab(t *testing.T, text string) *lab {
	t.Helper()
	l, cfg := newLab(t), parse(t, text)
	l.budgets = newBudgets(cfg.Global.Budget)
	l.budgets.share(cfg.Global.Budget, cfg.Endpoints, cfg.Modules)
	if err := l.apply(plan{cfg: cfg, endpoints: cfg.Endpoints}); err != nil {
		t.Fatal(err)
	}
	return l
}

// times runs all modules of an endpoint n times, one after the other.
func (l *lab) times(n int, endpoint string) page {
	l.t.Helper()
	for range n {
		l.run(endpoint, schedule.Run{Scheduled: time.Now()})
	}
	return l.page()
}

// until goes on with that until the page is as wanted, up to most times: where
// the machine is too busy a probe does not vouch for its figures.
func (l *lab) until(most int, endpoint, what string, wanted func(page) bool) page {
	l.t.Helper()
	for range most {
		if p := l.times(1, endpoint); wanted(p) {
			return p
		}
	}
	l.t.Fatalf("no %s after %d more runs", what, most)
	return nil
}

// interval is an estimate on the page with its bounds.
type interval struct{ value, lower, upper float64 }

// interval returns the one of a family, which must be there with both bounds.
func (p page) interval(t *testing.T, family string, labels ...string) interval {
	t.Helper()
	get := func(stat string) float64 {
		with := append(slices.Clone(labels), "stat", stat)
		if !p.has(family, with...) {
			t.Errorf("%s of %s is not there", family, with)
		}
		return p.sum(family, with...)
	}
	return interval{get("estimate"), get("lower"), get("upper")}
}

// encloses tells whether the bounds enclose a value, with their distance from the
// estimate stretched by a factor: bounds of 95 % miss the truth once in twenty
// runs of a test, and those of twice the distance once in some 10,000.
func (i interval) encloses(v, factor float64) bool {
	return v >= i.value-factor*(i.value-i.lower) && v <= i.value+factor*(i.upper-i.value)
}

// medianOf returns the median of values, of which there must be some.
func medianOf(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// logRelative logs a figure beside the truth.
func logRelative(t *testing.T, what string, got, want float64) {
	t.Helper()
	t.Logf("%s: %s, true %s (%+.2f %%)", what, fmt.Sprintf("%.6g", got), fmt.Sprintf("%.6g", want), 100*(got/want-1))
}

package fleet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// timedRunner notes when it was asked, and answers at once.
type timedRunner struct {
	mu   sync.Mutex
	lags []time.Duration // behind the schedule
}

func (r *timedRunner) Close() {}

// Run implements Runner.
func (r *timedRunner) Run(_ context.Context, due time.Time) ([]*result.Result, *result.Skip) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lags = append(r.lags, time.Since(due))
	return []*result.Result{served(due, 0)}, nil
}

// blockedObserver blocks at the first result of an endpoint.
type blockedObserver struct {
	endpoint string
	block    func()
}

func (b blockedObserver) Observe(o *Observation) {
	if o.Target.Endpoint.Name == b.endpoint {
		b.block()
	}
}

// An observer that blocks for 30 s holds up the endpoint whose result it has, and no other.
func TestBlockedObserverHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoints := []string{`{name: blocked, url: "http://127.0.0.1:1", modules: [m]}`}
		for i := range 20 {
			endpoints = append(endpoints, fmt.Sprintf(`{name: e%d, url: "http://127.0.0.1:1", modules: [m]}`, i))
		}
		l := workLab(t, `
modules: {m: {interval: 1s, timeout: 1s}}
endpoints: [`+strings.Join(endpoints, ", ")+`]`)
		l.Options.Observers = []Observer{blockedObserver{"blocked", sync.OnceFunc(func() { time.Sleep(30 * time.Second) })}}
		runners := map[string]*timedRunner{}
		for name, m := range l.active.Load().endpoints {
			runners[name] = &timedRunner{}
			m.tasks[0].runner.Close()
			m.tasks[0].runner = runners[name]
		}
		l.schedule(l.active.Load())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := l.Probing.Run(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for name, r := range runners {
			if want := 60; name != "blocked" && len(r.lags) != want {
				t.Errorf("%s: %d probes in a minute, want %d", name, len(r.lags), want)
			}
			for _, lag := range r.lags {
				if lag != 0 {
					t.Errorf("%s: a probe was %s late", name, lag)
				}
			}
		}
		// A run each second but for 30 s, in which each second is an overrun.
		p := l.page()
		if n, overruns := len(runners["blocked"].lags), p.Sum("inference_probe_skipped_total", "endpoint", "blocked", "reason", "overrun"); n != 31 && n != 30 || float64(n)+overruns != 60 {
			t.Errorf("the blocked endpoint had %d probes and %v overruns", n, overruns)
		}
	})
}

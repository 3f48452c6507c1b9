package fleet

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
)

// starts knows when the servers of an endpoint started or woke, and how long that took. It is safe for concurrent use.
type starts struct {
	since    time.Time // when it began to watch
	drillDue atomic.Bool

	mu       sync.Mutex
	servers  map[string]*page.Snapshot // the latest page of each; nil where none could be read yet
	warmFrom time.Time                 // when the latest start or wake was
	awaited  time.Time                 // the start of the only server, until a probe succeeds; zero is none
}

// read takes a reading of the pages of all servers, and returns how long a start took that is over now; 0 is none. What the first one shows
// may have been there for long.
func (s *starts) read(all []page.Status, probes []*explain.Series) (took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[string]*page.Snapshot, len(all))
	for i := range all {
		name, now := all[i].Server, all[i].Snapshot
		before, known := s.servers[name]
		if now == nil {
			next[name] = before
			continue
		}
		next[name] = now
		at := now.Started
		if at.IsZero() && len(s.servers) > 0 {
			at = now.At
		}
		if known && before != nil && !now.Restarted(before) {
			continue
		}
		if at.After(s.warmFrom) {
			s.warmFrom = at
		}
		if len(all) == 1 && now.Started.After(s.since) {
			s.awaited = now.Started
		}
	}
	s.servers = next
	if s.awaited.IsZero() {
		return 0
	}
	if first := firstSuccess(probes, s.awaited); !first.IsZero() {
		took, s.awaited = first.Sub(s.awaited), time.Time{}
	}
	return took
}

// cold reports whether a probe started while a server was warming up.
func (s *starts) cold(r *result.Result, warmUp time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return warmUp > 0 && r.Start.Before(s.warmFrom.Add(warmUp))
}

// firstSuccess returns when the first of the latest probes began that succeeded after an instant; zero is none.
func firstSuccess(all []*explain.Series, after time.Time) (first time.Time) {
	const latest = 60 // of each series: those of some readings
	for _, one := range all {
		for _, p := range one.Log.Points(latest) {
			if p.Outcome == result.Success && p.At.After(after) && (first.IsZero() || p.At.Before(first)) {
				first = p.At
			}
		}
	}
	return first
}

// seeSleep takes from a reading of the pages of all servers whether the model sleeps. One that wakes starts.
func (e *endpoint) seeSleep(all []page.Status) {
	until := time.Now().Add(3*time.Duration(e.cfg.Servers.Interval) + time.Duration(e.cfg.Servers.Timeout))
	if e.cfg.Wake != config.WakeAlways && e.health.SetAsleep(page.Asleep(all), until) {
		e.starts.mu.Lock()
		defer e.starts.mu.Unlock()
		e.starts.warmFrom = time.Now()
	}
}

func (e *endpoint) isAsleep() bool { return e.health.Status().Unmuted == health.Asleep }

// makeDrillDue is a job: the next run of no burst while the model sleeps wakes it.
func (s *starts) makeDrillDue(context.Context, schedule.Run) schedule.Report {
	s.drillDue.Store(true)
	return schedule.Report{}
}

// publishDrill shows how long the model took to wake, and counts the cost. It says nothing of the endpoint while awake.
func (t *task) publishDrill(results []*result.Result, skip *result.Skip) {
	t.publishSkip(skip)
	t.spend(results)
	if len(results) == 0 || results[0].Outcome == result.Canceled {
		return
	}
	e, r := t.endpoint, results[0]
	took, what := r.Timing.TTFT, "the model was woken: first token after "
	if took < 0 { // no tokens that come one by one
		took, what = r.Timing.Duration, "the model was woken: answer after "
	}
	limit, text := time.Duration(0), what+took.Round(time.Millisecond).String()
	if e.cfg.SLO != nil {
		limit = time.Duration(e.cfg.SLO.Wake)
	}
	wake := health.Wake{Took: took, Missed: limit > 0 && took > limit}
	if r.Outcome != result.Success {
		wake, text = health.Wake{Missed: true}, "the model could not be woken: "+r.Outcome.Description()
	}
	setFact(e, t.Name, wake)
	e.fleet.Logger.Info("wake drill", "endpoint", e.cfg.Name, "module", t.Name, "outcome", string(r.Outcome), "seconds", took.Seconds(), "err", r.Err)
	e.page.Note(t.Name, text)
}

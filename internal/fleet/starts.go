package fleet

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
)

// starts knows when the servers of an endpoint started or woke, and how long that took. It is safe for concurrent use.
type starts struct {
	since time.Time // when it began to watch

	mu       sync.Mutex
	servers  map[string]*page.Snapshot // the latest page of each; nil where none could be read yet
	warmFrom time.Time                 // when the latest start or wake was
	awaited  time.Time                 // the start of the only server, until a probe succeeds; zero is none
	drillDue bool
	took     collector.Starts
}

func newStarts() *starts {
	return &starts{since: time.Now(), took: collector.Starts{Start: math.NaN(), Wake: math.NaN(), WakeMissed: math.NaN()}}
}

func (s *starts) seconds() collector.Starts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took
}

// read takes a reading of the pages of all servers. What the first one shows may have been there for long.
func (s *starts) read(all []page.Status, probes []*explain.Series) {
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
		s.warm(at)
		if len(all) == 1 && now.Started.After(s.since) {
			s.awaited = now.Started
		}
	}
	s.servers = next
	if s.awaited.IsZero() {
		return
	}
	if first := firstSuccess(probes, s.awaited); !first.IsZero() {
		s.took.Start, s.awaited = first.Sub(s.awaited).Seconds(), time.Time{}
	}
}

// warm begins the time in which answers are cold, unless it began later; s.mu is held.
func (s *starts) warm(at time.Time) {
	if at.After(s.warmFrom) {
		s.warmFrom = at
	}
}

// cold reports whether a probe started while a server was warming up.
func (s *starts) cold(r *result.Result, warmUp time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return warmUp > 0 && r.Start.Before(s.warmFrom.Add(warmUp))
}

// firstSuccess returns when the first probe began that succeeded, of those that began after an instant; zero is none.
func firstSuccess(all []*explain.Series, after time.Time) (first time.Time) {
	for _, one := range all {
		for _, p := range one.Log.Points(recentStarts) {
			if p.Outcome == result.Success && p.At.After(after) && (first.IsZero() || p.At.Before(first)) {
				first = p.At
			}
		}
	}
	return first
}

// recentStarts is how many of the latest probes of a series are looked at for the first after a start: those of some
// readings.
const recentStarts = 60

// seeSleep takes from a reading of the pages of all servers whether the model sleeps. One that wakes starts.
func (e *endpoint) seeSleep(all []page.Status) {
	if e.cfg.Wake == config.WakeAlways {
		return
	}
	if why := page.Asleep(all); why != "" {
		e.health.Sleep(why, time.Now().Add(3*time.Duration(e.cfg.Servers.Interval)+time.Duration(e.cfg.Servers.Timeout)))
		return
	}
	if e.health.Wake() {
		e.starts.mu.Lock()
		defer e.starts.mu.Unlock()
		e.starts.warm(time.Now())
	}
}

func (e *endpoint) isAsleep() bool { return e.health.Status().Unmuted == health.Asleep }

// makeDrillDue is a job of the schedule.
func (s *starts) makeDrillDue(context.Context, schedule.Run) schedule.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drillDue = true
	return schedule.Report{}
}

// takeDrill reports whether a run of a module is to wake the model, as the first one of no burst since a drill was due.
func (s *starts) takeDrill(m *config.Module) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.drillDue && m.Judged()
	s.drillDue = s.drillDue && !due
	return due
}

// publishDrill shows how long the model took to wake, and counts what that cost. It says nothing of the endpoint while
// it is awake.
func (t *task) publishDrill(results []*result.Result, skip *result.Skip) {
	t.publishSkip(skip)
	t.spend(results)
	if len(results) == 0 || results[0].Outcome == result.Canceled {
		return
	}
	e, r := t.endpoint, results[0]
	took := r.Timing.TTFT
	if took < 0 { // no tokens that come one by one
		took = r.Timing.Duration
	}
	limit := time.Duration(0)
	if e.cfg.SLO != nil {
		limit = time.Duration(e.cfg.SLO.Wake)
	}
	failed := r.Outcome != result.Success
	wake, missed, text := took.Seconds(), 0.0, "the model was woken: first token after "+took.Round(time.Millisecond).String()
	if failed {
		wake, text = math.NaN(), "the model could not be woken: "+r.Outcome.Description()
	}
	if failed || limit > 0 && took > limit {
		missed = 1
	}
	e.starts.setWake(wake, missed)
	e.fleet.Logger.Info("wake drill", "endpoint", e.cfg.Name, "module", t.Name, "outcome", string(r.Outcome), "seconds", took.Seconds(), "err", r.Err)
	e.page.Note(t.Name, text)
}

func (s *starts) setWake(seconds, missed float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took.Wake, s.took.WakeMissed = seconds, missed
}

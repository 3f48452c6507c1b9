package fleet

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

const (
	// loadRetry is how often it is looked whether a load test can begin, and loadPatience how long after the start of
	// the process or a change of the endpoint at the earliest: what restarts again and again puts no load on anything.
	loadRetry    = time.Minute
	loadPatience = 5 * time.Minute
	// slowerThanUsual is how many times the usual TTFT the latest probe's is at most where there is room by it.
	slowerThanUsual = 2
)

// loadTask runs the load test of a module of an endpoint. It is no probe. tick is for one goroutine.
type loadTask struct {
	lifecycle
	Target
	endpoint *endpoint
	runner   Runner
	findings *findings
	series   *collector.Series // of what it spends
	since    time.Time         // of the task
	last     time.Time         // run, of this process or an earlier one; before the first, when the task began

	// Since the first try that found no room: how it ended, and until when there are others. nil is no such try.
	refused *loadtest.Report
	until   time.Time
}

func newLoadTask(t Target, r Runner, e *endpoint, found *findings) *loadTask {
	l := &loadTask{lifecycle: newLifecycle(r.Close), Target: t, endpoint: e, runner: r, findings: found, since: time.Now()}
	l.last = l.since
	found.show(found.last) // what was restored: the next run may be far
	if f, ok := workload.In[*loadtest.Finding](found.latest()); ok {
		l.last = f.At
	}
	l.series = e.metrics.Open(t.id(), collector.SeriesOptions{Kind: KindOf(t.Endpoint, t.Module), Price: t.Endpoint.Price, SpentOnly: true})
	return l
}

// point returns the latest instant until now at which a run was due: once in each interval, each task and host at another
// time, which no restart shifts.
func (l *loadTask) point(now time.Time) time.Time {
	return l.endpoint.fleet.Probing.Point(l.key(), time.Duration(l.Interval), now)
}

// tick is a job: it runs the load test where it is due and can begin.
func (l *loadTask) tick(ctx context.Context, _ schedule.Run) schedule.Report {
	now, f := time.Now(), l.endpoint.fleet
	if l.refused != nil && !now.Before(l.until) {
		l.unlessClosed(func() { l.publish(newLoadRun(l.Target, nil, f.Logger), l.refused) })
	}
	until, open := l.Load.Opens(now)
	due := open && l.point(now).After(l.last) && now.Sub(l.since) >= loadPatience
	if due && l.endpoint.canTakeLoad(now, l.Load.WithoutPage) && f.loading.TryLock() {
		defer f.loading.Unlock()
		l.once(ctx, now, until)
	}
	return schedule.Report{Skipped: true}
}

// once runs the load test, or finds that there is no room for it.
func (l *loadTask) once(ctx context.Context, now, until time.Time) {
	e := l.endpoint
	reader, err := e.fleet.Network.Reader(e.cfg, e.mappings)
	if err != nil {
		return // the reader of the endpoint has the same settings
	}
	defer reader.Close()
	r := newLoadRun(l.Target, reader, e.fleet.Logger)
	r.plan.Until, r.task = until, l
	if v := e.users.View(now); v != nil {
		r.usual = time.Duration(v.TTFT.Seconds["p99_upper"] * float64(time.Second))
	}
	var report *loadtest.Report
	l.run(ctx, func(ctx context.Context) {
		defer func() { r.end() }()
		report = r.run(ctx, l.runner, nil)
	}, func() {
		if report.End != loadtest.NoRoom {
			l.publish(r, report)
			return
		}
		if l.refused == nil {
			r.log.Info("no room for the load test: trying again each minute", "reason", report.Text)
			if l.until = until; until.IsZero() {
				l.until = now.Add(time.Duration(l.Interval))
			}
		}
		l.refused = report
	})
}

func (l *loadTask) publish(r *loadRun, report *loadtest.Report) {
	l.last, l.refused = report.Stop, nil
	l.findings.take(r.model, r.finding(report))
}

// beginLoad begins a load test of the endpoint and returns what ends it: meanwhile probes are marked as beside bursts,
// there are no bursts, and nothing that servers count is of users.
func (e *endpoint) beginLoad() (end func()) {
	burst := e.burst()
	e.loaded.Store(true)
	e.users.SetAside(math.MaxInt)
	return func() {
		e.users.SetAside(2) // a reading may be under way
		e.loaded.Store(false)
		burst()
	}
}

// canTakeLoad reports whether the endpoint is well: up, without a burst, and, where users cannot be seen, as fast as usual.
func (e *endpoint) canTakeLoad(now time.Time, alone bool) bool {
	if e.health.Status().State != health.Up || e.bursts.since(now) {
		return false
	}
	return !alone || !slices.ContainsFunc(e.series, func(s *explain.Series) bool {
		usual, _ := s.Log.Usual(now)
		latest := s.Log.Points(1)
		return usual != nil && len(latest) == 1 && latest[0].TTFT.Seconds() > slowerThanUsual**usual
	})
}

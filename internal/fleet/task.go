package fleet

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/prober"
)

type task struct {
	lifecycle
	Target
	endpoint *endpoint
	runner   Runner
	spending *spending
	findings *findings
	series   rungSeries // nil of a task that was closed
	log      taskLog
	due      []time.Time // of runs since the latest one, while users who wait for that count
}

// newTask returns the task of a rung, whose series goes on with what is known of the past.
func newTask(rung Target, r Runner, e *endpoint, found *findings, past *past) *task {
	t := &task{
		lifecycle: newLifecycle(r.Close), Target: rung, endpoint: e, runner: r,
		spending: newSpending(rung.Endpoint, rung.Module, e.fleet.budgets.of(rung.Endpoint)), findings: found,
	}
	t.log = taskLog{task: t}
	t.series = t.openSeries(len(e.tasks) == 0, past)
	return t
}

// letGo returns the series of a task that was closed, and drops them.
func (t *task) letGo() rungSeries {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.series
	t.series = nil
	return last
}

func (t *task) probe(ctx context.Context, r schedule.Run) schedule.Report {
	asleep := t.endpoint.isAsleep()
	if asleep && !(t.Judged() && t.endpoint.starts.drillDue.CompareAndSwap(true, false)) {
		t.skip(result.SkipAsleep)
		return schedule.Report{Skipped: true}
	}
	if !t.Judged() && t.endpoint.loaded.Load() { // one load of our own at a time
		t.skip(result.SkipOverrun)
		return schedule.Report{Skipped: true}
	}
	ok := t.spending.reserve()
	t.log.budget(ok)
	if !ok {
		t.skip(result.SkipBudget)
		return schedule.Report{Skipped: true}
	}
	if !t.Judged() {
		defer t.endpoint.burst()()
	}
	var results []*result.Result
	var skip *result.Skip
	defer func() { t.spending.settle(result.Spent(results, skip)) }()
	t.run(ctx, func(ctx context.Context) {
		self := t.endpoint.fleet.Self
		self.ProbesInFlight(1)
		defer self.ProbesInFlight(-1)
		t.endpoint.probing.Add(1)
		defer t.endpoint.probing.Add(-1)
		results, skip = t.runner.Run(ctx, r.Scheduled)
	}, func() {
		if asleep {
			t.publishDrill(results, skip)
			return
		}
		t.publish(results, skip, r.Confirm)
	})
	if asleep {
		return schedule.Report{Skipped: true}
	}
	return reportOf(results)
}

// reportOf returns what results mean for the schedule. A burst is no sign of an outage: it asks too much on purpose.
func reportOf(results []*result.Result) schedule.Report {
	report := schedule.Report{Skipped: len(results) == 0}
	for _, r := range results {
		report.Failed = report.Failed || r.Concurrency == 0 && r.Outcome != result.Success && r.Outcome != result.Canceled
		report.TimedOut = report.TimedOut || r.Outcome.IsTimeout()
		report.RetryAfter = max(report.RetryAfter, r.RetryAfter)
	}
	return report
}

func (t *task) publish(results []*result.Result, skip *result.Skip, confirmation bool) {
	t.publishSkip(skip)
	disturbed := slices.ContainsFunc(results, t.endpoint.bursts.disturbed) || t.endpoint.isAsleep()
	aside := disturbed || confirmation
	for _, r := range failuresLast(results) {
		t.spend(r.Beside)
		o := observe(t.Target, r, disturbed, confirmation)
		if t.endpoint.starts.cold(r, time.Duration(t.Endpoint.WarmUp)) {
			o.Observation, aside = o.AsCold(), true
		}
		t.endpoint.observe(o, t.series.of(r))
		t.log.one(r)
	}
	if t.countsWaiting() {
		t.countWaiting(results, !aside)
	}
	if !aside {
		t.findings.observe(results)
		changeFact(t.endpoint, t.Name, t.endpoint.changes)
	}
	t.log.run(results)
}

// failuresLast orders the results of bursts so that a series shows a failure as its latest where there was one.
func failuresLast(results []*result.Result) []*result.Result {
	rank := func(r *result.Result) int {
		if r.Concurrency == 0 || r.Outcome == result.Success {
			return 0
		}
		return 1
	}
	ordered := slices.Clone(results)
	slices.SortStableFunc(ordered, func(a, b *result.Result) int { return cmp.Or(a.Concurrency-b.Concurrency, rank(a)-rank(b)) })
	return ordered
}

// publishSkip counts a run that measured nothing, nil is none, and reports why in the log and on the status page.
func (t *task) publishSkip(s *result.Skip) {
	if s == nil {
		return
	}
	t.spend(result.Spent(nil, s))
	t.skipped(s.Reason, s.Text)
	if t.log.skip(s) {
		t.endpoint.page.Note(t.Name, "not probing: "+s.Text)
	}
}

// spend counts what results cost that say nothing else.
func (t *task) spend(results []*result.Result) {
	t.endpoint.traffic.spent(results...)
	for _, r := range results {
		t.series.of(r).metrics.Spend(r)
		t.endpoint.metrics.SetServed(r)
		health.Learn(t.endpoint.facts, r)
	}
}

func (t *task) skip(reason result.SkipReason) {
	now := time.Now()
	t.unlessClosed(func() {
		if reason == result.SkipOverrun && t.countsWaiting() {
			t.due = append(t.due, now)
		}
		t.skipped(reason, "")
	})
}

// skipped is skip with what to change, for people; "" where that is known from the reason.
func (t *task) skipped(reason result.SkipReason, text string) {
	t.series[0].metrics.Skip(reason)
	t.series[0].page.Health.Skip(reason, text)
	t.endpoint.fleet.Self.Missed(reason)
	t.endpoint.memory.Skip(reason, text, time.Now())
}

// taskLog logs what changes from one run of a task to the next. It is used by one run at a time.
type taskLog struct {
	task     *task
	outcome  result.Outcome // that was logged last; "" is none
	held     bool           // the last run was left out for its budget
	panicked bool           // a stack was logged
	said     string         // why a run measured nothing, when that was last logged
	saidAt   time.Time      // when that was
}

// logger is made for each line: most tasks have none.
func (l *taskLog) logger() *slog.Logger {
	t := l.task
	logger := t.Target.logger(t.endpoint.fleet.Logger)
	if t.InputLabel != "" {
		logger = logger.With("input_tokens", t.InputLabel)
	}
	if t.OutputLabel != "" {
		logger = logger.With("output_tokens", t.OutputLabel)
	}
	return logger
}

// budget logs that a budget begins or ceases to hold runs up.
func (l *taskLog) budget(ok bool) {
	if ok == !l.held {
		return
	}
	l.held = !ok
	if ok {
		l.logger().Info("budget available again")
		return
	}
	l.logger().Warn("not probing: the run could exceed a budget")
}

// sayAgain is how long the same reason for measuring nothing is not repeated: of a mix, a length may be skipped each time.
const sayAgain = time.Hour

// skip logs why a run measured nothing. It reports whether it did.
func (l *taskLog) skip(s *result.Skip) bool {
	if s.Text == l.said && time.Since(l.saidAt) < sayAgain {
		return false
	}
	l.said, l.saidAt = s.Text, time.Now()
	l.logger().Warn("not probing", "reason", string(s.Reason), "err", s)
	return true
}

// one logs the first panic, and an answer that is to be logged.
func (l *taskLog) one(r *result.Result) {
	if p, ok := errors.AsType[*prober.PanicError](r.Err); ok && !l.panicked {
		l.panicked = true
		l.logger().Error("panic in a probe", "err", p, "stack", string(p.Stack))
	}
	if r.Answer.Text != "" {
		l.logger().Info("answer not as expected", "verdict", string(r.Answer.Verdict), "prompt", r.Answer.Prompt, "answer", r.Answer.Text)
	}
}

// run logs the first success of a task; failures are in the log of the endpoint's incidents. Of bursts, which are not,
// it logs each change: that of a run by the smallest, as larger ones may fail for what they are.
func (l *taskLog) run(results []*result.Result) {
	if len(results) == 0 {
		return
	}
	r := results[0]
	for _, other := range results {
		if r.Outcome == result.Success && other.Concurrency == r.Concurrency {
			r = other
		}
	}
	before := l.outcome
	if r.Outcome == result.Canceled || r.Outcome == before {
		return
	}
	switch {
	case r.Outcome == result.Success:
		l.success(r, before)
	case !l.task.Judged(): // bursts are no part of the endpoint's incidents
		l.logger().Warn("burst failing", "outcome", string(r.Outcome), "model", r.Model, "err", r.Err)
	default:
		return // the first success is still to come, or was logged
	}
	l.outcome = r.Outcome
}

func (l *taskLog) success(r *result.Result, before result.Outcome) {
	message := "probe succeeds"
	if before != "" {
		message = "burst recovered"
	}
	key, took := "ttft_seconds", r.Timing.TTFT
	if took < 0 { // no tokens that come one by one
		key, took = "duration_seconds", r.Timing.Duration
	}
	l.logger().Info(message, "model", r.Model, key, took.Seconds())
}

// lifecycle ends the run of a task with the task: the same job may go on with one that replaced it.
type lifecycle struct {
	release func() // drops what the runs use; called once, never during a run

	mu     lock
	cancel context.CancelFunc // ends the run in flight; nil without one
	closed bool
}

func newLifecycle(release func()) lifecycle { return lifecycle{release: release, mu: make(lock, 1)} }

// lock is a mutex that is held for as long as observers take. To a fake clock, those who
// wait for it are idle, which those who wait for a sync.Mutex are not.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// run calls work and then, unless the task was closed meanwhile, publish: never after close has returned.
func (l *lifecycle) run(ctx context.Context, work func(context.Context), publish func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun, panics := false, true
	l.unlessClosed(func() { l.cancel, begun = cancel, true })
	if !begun {
		return
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.cancel = nil
		switch {
		case l.closed:
			l.release()
		case !panics:
			publish()
		}
	}()
	work(ctx)
	panics = false
}

// close ends the task: a run in flight is canceled, and nothing more is published.
func (l *lifecycle) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.cancel != nil {
		l.cancel() // the run releases
		return
	}
	l.release()
}

// unlessClosed calls a function unless the task was closed, which waits for it.
func (l *lifecycle) unlessClosed(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		do()
	}
}

// burstLoad knows when the exporter itself put load on an endpoint, so that what was measured beside it is not held
// against the endpoint. It is safe for concurrent use.
type burstLoad struct {
	mu      sync.Mutex
	running int
	ended   time.Time // the last one that did
}

func (b *burstLoad) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running++
}

func (b *burstLoad) end(now func() time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	b.ended = now()
}

// disturbed reports whether a burst ran during a probe that has just ended and is none itself.
func (b *burstLoad) disturbed(r *result.Result) bool {
	return r.Concurrency == 0 && b.since(r.Start)
}

// since reports whether a burst ran since a time.
func (b *burstLoad) since(at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running > 0 || b.ended.After(at)
}

package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/schedule"
	"github.com/inference-exporter/inference_exporter/tracing"
)

// task asks one endpoint what one rung of a module asks, whenever the scheduler
// says so.
type task struct {
	flight
	key      string
	host     string
	id       result.SeriesID // what its series have in common
	module   *config.Module  // of the rung
	prober   *prober.Prober
	spending *spending
	asking   *asking
	series   seriesOf // set before the first run
	probes   *collector.Probes
	servers  *collector.Servers
	self     *collector.Self
	traces   *traces
	target   tracing.Target
	found    *found
	logger   *slog.Logger
	load     *ownLoad       // on the endpoint
	outcome  result.Outcome // of the last run, "" before the first
	held     bool           // the last run was left out for its budget
	panicked bool           // a stack was logged
	said     string         // why a run measured nothing, when that was last logged
	saidAt   time.Time      // when that was
}

// probe runs once and hands the results to their readers.
func (t *task) probe(ctx context.Context, r schedule.Run) schedule.Report {
	most, ok := t.spending.reserve()
	if ok == t.held {
		t.logBudget(ok)
	}
	t.held = !ok
	if !ok {
		t.skip(result.SkipBudget)
		return schedule.Report{Skipped: true}
	}
	if len(t.module.Concurrency) > 0 {
		t.load.begin()
		defer t.load.end(time.Now)
		t.servers.BurstBegins(t.id.Endpoint)
		defer t.servers.BurstEnds(t.id.Endpoint)
	}
	var results []*result.Result
	var skip *result.Skip
	defer func() { t.spending.settle(most, result.Spent(results, skip)) }()
	t.run(ctx, func(ctx context.Context) {
		t.self.ProbeStarted()
		defer t.self.ProbeEnded()
		results, skip = t.prober.Run(ctx, r.Scheduled)
	}, func() { t.publish(results, skip, r.Confirm) })
	return reportOf(results)
}

func (t *task) logBudget(ok bool) {
	if ok {
		t.logger.Info("the budget has room again")
		return
	}
	t.logger.Warn("not probing: the run could exceed a budget")
}

// reportOf is what the results of a run mean for the schedule. A burst is no
// sign of an outage: too much was asked at once, on purpose.
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
	// What ran beside a burst of ours is slow by our own doing.
	disturbed := slices.ContainsFunc(results, t.load.disturbed)
	for _, r := range failuresLast(results) {
		s := t.series.of(r)
		switch {
		case disturbed:
			s.ObserveDisturbed(r)
		case confirmation:
			s.Observe(r)
		default:
			s.Observe(r)
			s.Judge(r)
		}
		s.shown.Observe(r) // after Judge, whose window it shows
		t.probes.SetServed(t.id.Endpoint, r)
		if r.Concurrency == 0 && r.Kind != api.Scoring {
			t.servers.ObserveProbe(t.id.Endpoint, r, disturbed)
		}
		t.found.learn(r)
		t.self.Observe(r)
		t.traces.Observe(t.target, r)
		t.logOne(r)
	}
	if !disturbed {
		t.asking.observe(results)
	}
	t.logRun(results)
}

// failuresLast orders the results of bursts so that what a series shows of the
// latest probe is a failure where there was one.
func failuresLast(results []*result.Result) []*result.Result {
	rank := func(r *result.Result) int {
		if r.Outcome == result.Success {
			return 0
		}
		return 1
	}
	ordered := slices.Clone(results)
	slices.SortStableFunc(ordered, func(a, b *result.Result) int {
		if a.Concurrency == 0 || a.Concurrency != b.Concurrency {
			return a.Concurrency - b.Concurrency
		}
		return cmp.Compare(rank(a), rank(b))
	})
	return ordered
}

// skip counts a run that was left out.
func (t *task) skip(reason result.SkipReason) {
	t.series[0].Skip(reason)
	t.self.Missed(reason)
}

// sayAgain is how long the same reason for measuring nothing is not repeated: of a mix
// of lengths, one may be skipped each time that it is drawn.
const sayAgain = time.Hour

// publishSkip counts a run that measured nothing, and reports why in the log and on the
// status page. nil is a run that measured.
func (t *task) publishSkip(s *result.Skip) {
	if s == nil {
		return
	}
	for _, r := range s.Spent {
		t.series.of(r).Spend(r)
		t.probes.SetServed(t.id.Endpoint, r)
		t.found.learn(r)
	}
	t.skip(s.Reason)
	if s.Text == t.said && time.Since(t.saidAt) < sayAgain {
		return
	}
	t.said, t.saidAt = s.Text, time.Now()
	t.logger.Warn("not probing", "reason", string(s.Reason), "err", s)
	t.asking.note("not probing: " + s.Text)
}

// logOne tells of the first panic, and of an answer that is to be logged.
func (t *task) logOne(r *result.Result) {
	if p, ok := errors.AsType[*prober.PanicError](r.Err); ok && !t.panicked {
		t.panicked = true
		t.logger.Error("panic in a probe", "err", p, "stack", string(p.Stack))
	}
	if r.Answer.Text != "" {
		t.logger.Info("answer not as expected", "verdict", string(r.Answer.Verdict), "prompt", r.Answer.Prompt, "answer", r.Answer.Text)
	}
}

// logRun tells of a change of state: of a run by its first failure, and of bursts
// by the smallest, as larger ones may fail for what they are.
func (t *task) logRun(results []*result.Result) {
	if len(results) == 0 {
		return
	}
	r := results[0]
	for _, other := range results {
		if r.Outcome == result.Success && other.Concurrency == r.Concurrency {
			r = other
		}
	}
	before := t.outcome
	if r.Outcome == result.Canceled || r.Outcome == before {
		return
	}
	t.outcome = r.Outcome
	if r.Outcome != result.Success {
		t.logger.Warn("probe failing", "outcome", string(r.Outcome), "model", r.Model, "err", r.Err)
		return
	}
	message := "probe recovered"
	if before == "" {
		message = "probe succeeds"
	}
	if r.Timing.TTFT < 0 { // no tokens that come one by one
		t.logger.Info(message, "model", r.Model, "duration_seconds", r.Timing.Duration.Seconds())
		return
	}
	t.logger.Info(message, "model", r.Model, "ttft_seconds", r.Timing.TTFT.Seconds())
}

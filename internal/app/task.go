package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/schedule"
	"github.com/inference-exporter/inference_exporter/tracing"
)

// task probes one endpoint with one module whenever the scheduler says so.
type task struct {
	flight
	key      string
	host     string
	interval time.Duration
	timeout  time.Duration
	id       collector.ID
	slo      config.SLO
	prober   *prober.Prober
	series   *collector.Series
	probes   *collector.Probes
	servers  *collector.Servers
	self     *collector.Self
	traces   *tracing.Exporter
	target   tracing.Target
	found    *found
	logger   *slog.Logger
	outcome  prober.Outcome // of the last probe, "" before the first
	panicked bool           // a stack was logged
}

// probe probes once and hands the result to its readers.
func (t *task) probe(ctx context.Context, r schedule.Run) schedule.Report {
	var report schedule.Report
	var res *prober.Result
	t.run(ctx, func(ctx context.Context) {
		t.self.ProbeStarted()
		defer t.self.ProbeEnded()
		res = t.prober.Probe(ctx, r.Scheduled)
		report.Failed = res.Outcome != prober.Success && res.Outcome != prober.Canceled
		report.RetryAfter = res.RetryAfter
	}, func() { t.publish(res, r.Confirm) })
	return report
}

func (t *task) publish(res *prober.Result, confirmation bool) {
	t.series.Observe(res)
	if !confirmation {
		t.series.Judge(res)
	}
	t.probes.SetServed(t.id.Endpoint, res)
	t.servers.ObserveProbe(t.id.Endpoint, res)
	t.found.learn(res)
	t.self.Observe(res)
	if t.traces != nil {
		t.traces.Observe(t.target, res)
	}
	t.log(res)
}

func (t *task) skipped(reason schedule.Reason) {
	t.series.Skip(collector.SkipReason(reason))
	t.self.Missed(collector.SkipReason(reason))
}

// log tells of a change of state, of the first panic, and of nothing else.
func (t *task) log(r *prober.Result) {
	if p, ok := errors.AsType[*prober.PanicError](r.Err); ok && !t.panicked {
		t.panicked = true
		t.logger.Error("panic in a probe", "err", p, "stack", string(p.Stack))
	}
	before := t.outcome
	if r.Outcome == prober.Canceled || r.Outcome == before {
		return
	}
	t.outcome = r.Outcome
	if r.Outcome != prober.Success {
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

package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/schedule"
	"github.com/inference-exporter/inference_exporter/tracing"
)

// fleetParts are the parts that a fleet connects.
type fleetParts struct {
	dialer    *prober.Dialer
	scheduler *schedule.Scheduler
	probes    *collector.Probes
	self      *collector.Self
	traces    *tracing.Exporter // nil without trace export
	logger    *slog.Logger
}

// fleet turns sets of endpoints into jobs of the scheduler: one task for each
// endpoint and module. It is used by one goroutine.
type fleet struct {
	fleetParts
	modules map[string]*config.Module
	members map[string]*member
}

// member is one endpoint with its tasks.
type member struct {
	cfg   *config.Endpoint
	tasks []*task
}

func newFleet(cfg *config.Config, parts fleetParts) *fleet {
	return &fleet{
		fleetParts: parts, modules: cfg.Modules,
		members: map[string]*member{},
	}
}

// apply makes set the endpoints that are probed. Endpoints that stay as they
// were keep their probers and series. After an error the old set goes on.
func (f *fleet) apply(set []*config.Endpoint) error {
	next := make(map[string]*member, len(set))
	var fresh []*member
	for _, cfg := range set {
		if m := f.members[cfg.Name]; m != nil && reflect.DeepEqual(m.cfg, cfg) {
			next[cfg.Name] = m
			continue
		}
		m, err := f.newMember(cfg)
		if err != nil {
			for _, m := range fresh {
				m.close()
			}
			return err
		}
		fresh = append(fresh, m)
		next[cfg.Name] = m
	}
	gone := maps.Clone(f.members)
	maps.DeleteFunc(gone, func(name string, m *member) bool { return next[name] == m })
	f.members = next
	f.retire(gone)
	for _, m := range fresh {
		f.introduce(m)
	}
	f.scheduler.Update(f.jobs())
	f.self.SetEndpoints(len(next))
	return nil
}

// newMember builds the probers of an endpoint and touches nothing else.
func (f *fleet) newMember(cfg *config.Endpoint) (*member, error) {
	endpoint, err := prober.NewEndpoint(cfg, prober.Options{
		Dialer: f.dialer, UserAgent: "inference_exporter/" + version.Version,
	})
	if err != nil {
		return nil, err
	}
	m := &member{cfg: cfg}
	for _, name := range cfg.Modules {
		module := f.modules[name]
		p, err := endpoint.New(module)
		if err != nil {
			m.close()
			return nil, err
		}
		m.tasks = append(m.tasks, &task{
			key: cfg.Name + "\x00" + name, host: cfg.URL.Host, interval: time.Duration(module.Interval),
			id: collector.ID{
				Endpoint: cfg.Name, Module: name, Prefix: string(module.Prefix), Labels: cfg.Labels,
			},
			prober: p, probes: f.probes, self: f.self, traces: f.traces,
			target: tracing.Target{Endpoint: cfg.Name, Module: name, URL: cfg.URL.String(), MaxTokens: module.OutputTokens},
			logger: f.logger.With("endpoint", cfg.Name, "module", name),
		})
	}
	return m, nil
}

func (f *fleet) introduce(m *member) {
	f.probes.SetEndpoint(collector.EndpointInfo{
		Endpoint: m.cfg.Name, Model: m.cfg.Model, API: m.cfg.API, URL: m.cfg.URL.String(), Labels: m.cfg.Labels,
	})
	configured, _ := api.Lookup(m.cfg.API)
	for _, t := range m.tasks {
		t.series = f.probes.Series(t.id)
		t.series.SetKind(configured.Kind)
	}
}

// retire takes members off the page. Their series go after their tasks have
// closed, so that nothing comes back.
func (f *fleet) retire(gone map[string]*member) {
	for name, m := range gone {
		m.close()
		for _, t := range m.tasks {
			f.probes.Remove(t.id)
		}
		f.probes.RemoveEndpoint(name)
	}
}

func (f *fleet) jobs() []schedule.Job {
	var jobs []schedule.Job
	for _, m := range f.members {
		for _, t := range m.tasks {
			jobs = append(jobs, schedule.Job{
				Key: t.key, Host: t.host, Interval: t.interval, Run: t.run, Skipped: t.skipped,
			})
		}
	}
	return jobs
}

// close drops what the probers keep.
func (f *fleet) close() {
	for _, m := range f.members {
		m.close()
	}
}

func (m *member) close() {
	for _, t := range m.tasks {
		t.close()
	}
}

// task probes one endpoint with one module whenever the scheduler says so.
type task struct {
	key      string
	host     string
	interval time.Duration
	id       collector.ID
	prober   *prober.Prober
	series   *collector.Series
	probes   *collector.Probes
	self     *collector.Self
	traces   *tracing.Exporter
	target   tracing.Target
	logger   *slog.Logger
	outcome  prober.Outcome // of the last probe, "" before the first
	panicked bool           // a stack was logged

	mu     sync.Mutex
	cancel context.CancelFunc // ends the probe that runs; nil without one
	closed bool
}

// run probes once and hands the result to its readers, unless the task was
// closed meanwhile: the same job may go on with a task that replaced this one.
func (t *task) run(ctx context.Context, r schedule.Run) schedule.Report {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !t.begin(cancel) {
		return schedule.Report{}
	}
	t.self.ProbeStarted()
	defer t.self.ProbeEnded()
	res := t.prober.Probe(ctx, r.Scheduled)
	t.end(res)
	return schedule.Report{
		Failed:     res.Outcome != prober.Success && res.Outcome != prober.Canceled,
		RetryAfter: res.RetryAfter,
	}
}

// begin tells whether a probe may start.
func (t *task) begin(cancel context.CancelFunc) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.cancel = cancel
	}
	return !t.closed
}

// end publishes a result.
func (t *task) end(res *prober.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel = nil
	if t.closed {
		t.prober.Close()
		return
	}
	t.series.Observe(res)
	t.probes.SetServed(t.id.Endpoint, res)
	t.self.Observe(res)
	if t.traces != nil {
		t.traces.Observe(t.target, res)
	}
	t.log(res)
}

// close ends the task: a probe that runs is canceled, and nothing more is
// published.
func (t *task) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.cancel != nil {
		t.cancel() // end closes the prober, which is in use
		return
	}
	t.prober.Close()
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

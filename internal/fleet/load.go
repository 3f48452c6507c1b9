package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/users"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
	"github.com/inference-exporter/inference_exporter/prober"
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

// point returns the latest instant until now at which a run was due: one in each interval, the same after a restart.
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

// RunLoad puts the load of a target, whose module has one, on its endpoint, level after level. Pages are read by the built-in
// mappings and by engines of a configuration, and progress is called once a second at most. It returns when nothing of the
// load is left, within a second of the end of ctx. An error means that the settings cannot be used.
func RunLoad(ctx context.Context, t Target, engines map[string]*config.Mapping, progress func(loadtest.Progress)) (*loadtest.Finding, error) {
	dialer := prober.NewDialer()
	defer dialer.Close()
	newRunner, err := network{dialer: dialer}.Runners(t.Endpoint)
	if err != nil {
		return nil, err
	}
	runner, err := newRunner(t.Module)
	if err != nil {
		return nil, err
	}
	defer runner.Close()
	reader, err := network{}.readerWith(engines, t.Endpoint)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	r := newLoadRun(t, reader, slog.New(slog.DiscardHandler))
	return r.finding(r.run(ctx, runner, progress)), nil
}

// loadRun is one run of a load test, and what it asks: the Driver. Its methods may be called at the same time.
type loadRun struct {
	Target
	plan   loadtest.Plan
	log    *slog.Logger
	users  *prober.Users
	reader Reader
	usual  time.Duration // that users' 99th percentile of TTFT is at most; 0 is not known
	begun  sync.Once
	task   *loadTask // nil of a command
	end    func()    // ends what the task began with the first request

	isDown  atomic.Bool               // the endpoint was not up at the latest reading, of which nothing was read
	reading sync.Mutex                // of the pages: one at a time
	probes  int                       // in flight after the latest reading
	servers int                       // of the latest reading
	pages   map[string]*page.Snapshot // the latest by server
	other   error                     // a page was that of another process than before; nil is none

	mu       sync.Mutex
	own      *schedule.Budget // of this run
	reserved []*spending      // one for each request that may begin or is in flight
	latest   spending         // that was settled
	model    string           // that answers; "" is not known
}

func newLoadRun(t Target, reader Reader, log *slog.Logger) *loadRun {
	begin := time.Now() // and now for good: a budget whose clock does not run forgets nothing
	return &loadRun{
		Target: t, plan: loadtest.Plan{Load: t.Load, Objectives: t.promised}, reader: reader, end: func() {},
		log: t.logger(log), pages: map[string]*page.Snapshot{},
		own: schedule.NewBudget(t.Load.MaxTokens, t.Load.MaxUSD, func() time.Time { return begin }),
	}
}

// run runs the load test. It logs its begin and its end, and why it cannot begin, unless that is for want of room.
func (r *loadRun) run(ctx context.Context, runner Runner, progress func(loadtest.Progress)) *loadtest.Report {
	start := time.Now()
	end, text := r.open(ctx, runner)
	if r.users != nil {
		defer r.users.Close()
	}
	if end != "" {
		if end != loadtest.NoRoom && end != loadtest.Canceled {
			r.log.Warn("load test cannot begin", "end", string(end), "reason", text)
		}
		return &loadtest.Report{Start: start, Stop: time.Now(), End: end, Text: text}
	}
	report := loadtest.Run(ctx, r.plan, r, progress)
	if report.End == loadtest.PageLost && r.isDown.Load() {
		report.End = loadtest.NotUp
	}
	if report.End != loadtest.NoRoom {
		r.log.Info("load test ended", "end", string(report.End), "reason", report.Text, "levels", len(report.Levels),
			"seconds", report.Stop.Sub(report.Start).Seconds())
	}
	return report
}

// open finds out what to ask, and whether pages show how busy the servers are. It returns why there can be no run, or "".
func (r *loadRun) open(ctx context.Context, runner Runner) (end loadtest.End, text string) {
	asks, ok := runner.(*prober.Prober)
	if !ok {
		return loadtest.NotPossible, "this endpoint cannot be asked"
	}
	var why *result.Skip
	var err error
	switch r.users, why, err = asks.Users(ctx); {
	case ctx.Err() != nil:
		return loadtest.Canceled, ""
	case err != nil:
		return endOf(err), err.Error()
	case why != nil && why.Reason == result.SkipResources:
		return loadtest.OwnLimit, why.Text
	case why != nil:
		return loadtest.NotPossible, why.Text
	}
	_, err = r.Pressure(ctx)
	short := &config.TracedRequest{Input: 16, Output: 1}
	r.plan.HasPage = err == nil
	switch {
	case ctx.Err() != nil:
		return loadtest.Canceled, ""
	case err != nil && !errors.Is(err, errNoPressure): // a page that is there, and may be read the next time
		return loadtest.NoRoom, err.Error()
	case err != nil && !r.Load.WithoutPage:
		if r.task == nil && r.Afford(short) { // nobody has asked the endpoint where there was nothing to identify
			if one := r.Ask(ctx, 0, time.Time{}, short); one.Err != nil {
				return endOf(one.Err), one.Err.Error()
			}
		}
		return loadtest.NotPossible, err.Error() + "; set load.without_page to put load on it all the same"
	}
	return "", ""
}

// endOf is that of a run of which the endpoint answers nothing but an error.
func endOf(err error) loadtest.End {
	if prober.OutcomeOf(err) == result.Unauthorized {
		return loadtest.Refused
	}
	return loadtest.NotPossible
}

// errNoPressure is that of pages that do not show how busy the servers are.
var errNoPressure = errors.New("no metrics page shows how many requests run and wait")

// Pressure implements loadtest.Driver. Each page of a server must be readable, and the endpoint up by its probes.
func (r *loadRun) Pressure(ctx context.Context) (p loadtest.Pressure, err error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	known := page.Known{Model: r.Endpoint.Model}
	if r.task != nil {
		if s := r.task.endpoint.health.Status().State; s != health.Up { // which the load may be why
			r.isDown.Store(true)
			return p, fmt.Errorf("the endpoint is %s", s)
		}
		r.isDown.Store(false)
		known = knownOf(r.task.endpoint.facts)
	}
	before := max(r.probes, r.inFlight())
	statuses := present(r.reader.Scrape(ctx, known))
	r.probes = r.inFlight()
	if ctx.Err() != nil {
		return p, fmt.Errorf("read the pages of the servers: %w", context.Cause(ctx))
	}
	if err := r.follow(statuses); err != nil {
		return p, err
	}
	if p, err = pressureOf(statuses, r.usual); err == nil {
		r.servers = len(statuses)
		p.Running = max(0, p.Running-float64(max(before, r.probes)))
	}
	return p, err
}

// follow returns an error from when on a page was that of another process than before: where a balancer has several servers
// at the address of one page, users of those that it does not show are not seen.
func (r *loadRun) follow(statuses []page.Status) error {
	for i := range statuses {
		st := &statuses[i]
		if st.Snapshot == nil {
			continue
		}
		if before := r.pages[st.Server]; before != nil && st.Snapshot.Restarted(before) && r.other == nil {
			r.other = fmt.Errorf("the page of %s is that of another process than before: the server was started again, or a balancer has several servers there; name the page of each under servers", st.Server)
		}
		r.pages[st.Server] = st.Snapshot
	}
	return r.other
}

// inFlight returns how many probes are, which are no users.
func (r *loadRun) inFlight() int {
	if r.task == nil {
		return 0
	}
	return int(r.task.endpoint.probing.Load())
}

// pressureOf returns what the pages of all servers show together; usual is Pressure.UsualP99.
func pressureOf(statuses []page.Status, usual time.Duration) (p loadtest.Pressure, err error) {
	for i := range statuses {
		if st := &statuses[i]; st.Snapshot == nil {
			return p, fmt.Errorf("read the page of %s: %w", st.Server, st.Err)
		}
	}
	total := page.NewTotal(statuses)
	if total == nil {
		return p, errNoPressure
	}
	running, hasRunning := total.Values[config.RequestsRunning]
	waiting, hasWaiting := total.Values[config.RequestsWaiting]
	if !hasRunning || !hasWaiting {
		return p, errNoPressure
	}
	p = loadtest.Pressure{Running: running, Waiting: waiting, KVUsage: -1, TTFTCount: -1, TTFTLate: -1, UsualP99: usual}
	if kv, ok := total.Values[config.KVCacheUsage]; ok {
		p.KVUsage = kv
	}
	if h := total.Histograms[config.TTFT]; h != nil {
		p.TTFTCount = float64(h.Count)
		if usual > 0 && len(h.Bounds) > 0 {
			p.TTFTLate = float64(users.Over(h, usual.Seconds()).Bad)
		}
	}
	return p, nil
}

// Afford implements loadtest.Driver.
func (r *loadRun) Afford(lengths *config.TracedRequest) bool {
	limits := []limit{r.own}
	if r.task != nil {
		limits = append(limits, r.task.endpoint.fleet.budgets.of(r.Endpoint)...)
	}
	s := newSpending(r.Endpoint, r.Module, limits)
	s.lengths = lengths
	r.mu.Lock()
	defer r.mu.Unlock()
	s.kind, s.counted = cmp.Or(r.latest.kind, s.kind), r.latest.counted
	if !s.reserve() {
		return false
	}
	r.reserved = append(r.reserved, s)
	return true
}

// Ask implements loadtest.Driver.
func (r *loadRun) Ask(ctx context.Context, user int, planned time.Time, lengths *config.TracedRequest) *result.Result {
	r.begun.Do(func() {
		r.log.Info("load test begins", "load", string(r.Load.Kind()), "levels", r.Load.Levels(), "page", r.plan.HasPage)
		if r.task != nil {
			r.end = r.task.endpoint.beginLoad()
			r.task.findings.take("", loadtest.Begun{})
		}
	})
	one := r.users.Ask(ctx, user, planned, lengths)
	r.settle(one)
	if r.task != nil {
		r.task.endpoint.traffic.spent(one)
		r.task.series.Spend(one)
	}
	return one
}

// settle replaces what was reserved for a request by what it has cost.
func (r *loadRun) settle(one *result.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.reserved) - 1
	s := r.reserved[n]
	r.reserved = r.reserved[:n]
	s.settle([]*result.Result{one})
	r.latest, r.model = *s, cmp.Or(one.Model, r.model)
}

func (r *loadRun) finding(report *loadtest.Report) *loadtest.Finding {
	e := r.Endpoint
	c := loadtest.Context{Price: e.Price, Replicas: r.servers}
	if e.Hardware != nil {
		c.GPUs = e.Hardware.GPUs * r.servers // those of one server, which are not known without a page
	}
	return loadtest.NewFinding(report, r.plan, c)
}

package fleet

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/recorder"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/users"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

type spec struct {
	cfg      *config.Endpoint
	targets  []Target // in the order of the endpoint's modules
	mappings *page.Mappings
}

// equals reports whether an endpoint of one is an endpoint of the other too.
func (s spec) equals(other spec) bool {
	return s.mappings == other.mappings &&
		(s.cfg == other.cfg || reflect.DeepEqual(s.cfg, other.cfg)) &&
		slices.EqualFunc(s.targets, other.targets, func(a, b Target) bool { return a.Module == b.Module })
}

// check finds in a discovered endpoint what a configuration is refused for.
func (s spec) check() error {
	if name := s.cfg.Servers.Engine; name != "" && s.mappings.Mapping(name) == nil {
		return fmt.Errorf("unknown engine %.64q", name)
	}
	for _, t := range s.targets {
		if err := prober.Suits(s.cfg.API, t.Module); err != nil {
			return fmt.Errorf("module %q: %w", t.Name, err)
		}
	}
	return nil
}

// targetOf identifies whose the results of an endpoint are; a hash, since a URL may hold a secret.
func targetOf(e *config.Endpoint) uint64 {
	return xxhash.Sum64String(e.URL.String() + "\x00" + e.API + "\x00" + e.Model)
}

// connections are what asks an endpoint and reads its servers' pages: all of it that can fail.
type connections struct {
	spec
	runners []Runner // of the rungs of all targets, and of load tests; none where endpoints are not probed
	reader  Reader   // nil where pages are not read
}

// connect makes the connections of an endpoint, and touches nothing else.
func (f *Fleet) connect(s spec) (*connections, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	c := &connections{spec: s}
	if err := c.open(f); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *connections) open(f *Fleet) error {
	if f.Probing != nil {
		newRunner, err := f.runners(c.cfg)
		if err != nil {
			return err
		}
		for _, target := range c.targets {
			for _, rung := range target.rungs() {
				r, err := newRunner(rung.Module)
				if err != nil {
					return err
				}
				c.runners = append(c.runners, r)
			}
		}
	}
	if f.Scraping == nil || c.cfg.MissingSecret != "" {
		return nil
	}
	mappings := c.mappings
	if slices.ContainsFunc(c.targets, func(t Target) bool { return t.Traffic != nil }) {
		mappings = mappings.WithLengths()
	}
	var err error
	c.reader, err = f.Network.Reader(c.cfg, mappings)
	return err
}

func (c *connections) close() {
	for _, r := range c.runners {
		r.Close()
	}
	if c.reader != nil {
		c.reader.Close()
	}
}

// endpoint is one endpoint with all that is kept of it, and its tasks. But for what its parts guard, it never changes.
type endpoint struct {
	spec
	fleet    *Fleet
	health   *health.Endpoint
	page     *status.Endpoint
	metrics  *collector.Endpoint
	memory   *explain.Memory
	track    *recorder.Track   // nil where nothing is recorded
	series   []*explain.Series // of all tasks, but for bursts
	models   drift.Served
	traffic  *traffic        // nil where no module asks what users ask
	split    *page.TTFTSplit // nil where pages are not read
	users    *users.Tracker
	bursts   burstLoad
	starts   *starts
	replicas *page.Replicas
	week     *page.Week
	facts    *workload.Facts
	findings []*findings // by index in targets; none where the endpoint is not probed
	tasks    []*task
	loads    []*loadTask
	loaded   atomic.Bool  // a load test runs
	probing  atomic.Int32 // probes in flight
	scrape   *source      // nil where pages are not read
}

// newEndpoint builds an endpoint and shows it. It takes the place of the one before, nil is
// none, which it closes: of the same target it keeps what is known of the series that stay.
func (f *Fleet) newEndpoint(c *connections, before *endpoint, hashes map[string]uint64) *endpoint {
	cfg, now := c.cfg, time.Now()
	e := &endpoint{spec: c.spec, fleet: f, memory: explain.NewMemory(cfg), traffic: newTraffic(c.targets), starts: &starts{since: now}, facts: new(workload.Facts)}
	past := e.follow(before, now)
	health.Learn(e.facts, &result.Result{Model: cfg.Model})
	e.replicas, e.week = cmp.Or(e.replicas, page.NewReplicas(past.differ)), cmp.Or(e.week, page.NewWeek(past.week))
	e.watchModel(past, now)
	e.openMetrics()
	e.followUsers()
	if past.served != nil {
		e.metrics.SetServed(past.served)
	}
	if f.Scraping != nil {
		e.split = new(page.TTFTSplit)
	}
	for _, target := range e.targets {
		if len(c.runners) == 0 {
			break
		}
		found := newFindings(e, target, askedOf(target, hashes[target.Name]))
		found.restore(past)
		e.findings = append(e.findings, found)
		for _, rung := range target.rungs() {
			runner := c.runners[len(e.tasks)+len(e.loads)]
			e.traffic.follow(rung, runner)
			if rung.Load != nil {
				e.loads = append(e.loads, newLoadTask(rung, runner, e, found))
			} else {
				e.tasks = append(e.tasks, newTask(rung, runner, e, found, past))
			}
		}
	}
	workload.ChangeFact(e.facts, e.changes)
	if c.reader != nil {
		e.scrape = e.readServers(c.reader)
	} else {
		workload.SetFact[*page.Compared](e.facts, nil) // of pages that are no longer read
	}
	return e
}

// follow closes the endpoint before, and returns what the new one goes on with: what that one
// or, without one, an earlier process knew of the same target.
func (e *endpoint) follow(before *endpoint, now time.Time) *past {
	f, name := e.fleet, e.cfg.Name
	known := f.before.take(name, targetOf(e.cfg), now)
	if before != nil {
		series := before.close()
		if targetOf(before.cfg) == targetOf(e.cfg) {
			known = before.handOver(e, series)
			e.health, e.page, e.track = before.health, before.page, before.track
			e.page.Configure(e.cfg)
			return known
		}
		before.page.Close()
		before.track.Close()
	}
	e.health = health.New(name, f.Health, known.state)
	e.page = f.Board.NewEndpoint(e.cfg, e.health, e.facts)
	if f.Recorder != nil {
		e.track = f.Recorder.Track(name)
	}
	return known
}

// handOver gives what was learned, and the memory, to the endpoint that takes the place of
// this one, which is closed, and takes the series that do not stay off the status page.
func (e *endpoint) handOver(next *endpoint, last []variantSeries) *past {
	known := newPast(targetOf(e.cfg))
	stay := next.seriesIDs()
	for _, s := range last {
		id := s.page.ID
		if !slices.Contains(stay, id) {
			s.page.Close()
			continue
		}
		known.learned[id] = &savedLearned{Asked: s.asked, Steps: s.steps}
	}
	for _, n := range e.findings {
		if tracker, err := n.tracker.Save(); err == nil && tracker != nil {
			known.learned[n.id()] = &savedLearned{Asked: n.asked, Tracker: tracker}
		}
	}
	for _, l := range e.loads {
		e.page.SetFindings(l.Name, nil) // until one that stays shows them again
	}
	next.memory.Adopt(e.memory)
	next.starts, next.replicas, next.week, next.facts, next.users = e.starts, e.replicas, e.week, e.facts, e.users
	known.served, known.models = e.metrics.Served(), e.models.Save()
	return known
}

// followUsers goes on with what is known of users of the same target.
func (e *endpoint) followUsers() {
	objectives := series.NewObjectives(e.cfg.SLOWith(new(config.Module)))
	for _, t := range slices.Backward(e.targets) {
		if of := t.objectives(); of != nil && e.cfg.SLO == nil {
			objectives = of
		}
	}
	if e.users == nil {
		e.users = users.NewTracker(objectives)
		return
	}
	e.users.Configure(objectives)
	setFact(e, "", e.users.View(time.Now()))
}

func (e *endpoint) openMetrics() {
	f, cfg := e.fleet, e.cfg
	e.metrics = f.Probes.OpenEndpoint(collector.EndpointInfo{
		Endpoint: cfg.Name, Model: cfg.Model, API: cfg.API, ServerEngine: cfg.Servers.Engine, URL: cfg.URL.String(), Labels: cfg.Labels,
		Hardware: cfg.Hardware, Price: cfg.Price, Budget: f.budgets.used(cfg),
		State: e.health.Status, Facts: e.facts, Cause: func() explain.Cause { return f.cause(e) },
	})
}

// end ends the tasks: nothing more is published.
func (e *endpoint) end() {
	for _, t := range e.tasks {
		t.close()
	}
	for _, l := range e.loads {
		l.close()
	}
	if e.scrape != nil {
		e.scrape.close()
	}
}

// close ends the tasks and takes the endpoint off the page of metrics. It returns its series,
// which the tasks let go of: the scheduler may know them for a while.
func (e *endpoint) close() (last []variantSeries) {
	e.end()
	for _, t := range e.tasks {
		last = append(last, t.letGo()...)
	}
	e.metrics.Close()
	return last
}

func (e *endpoint) seriesIDs() []result.SeriesID {
	var all []result.SeriesID
	for _, t := range e.targets {
		for _, rung := range t.rungs() {
			for _, v := range variantsOf(rung.Module) {
				all = append(all, v.id(rung.id()))
			}
		}
	}
	return all
}

func (e *endpoint) gateway() *explain.Gateway {
	if s := e.fleet.active.Load().gateways.byName[e.cfg.Gateway]; s != nil {
		return s.gateway
	}
	return nil
}

// observe hands a result of a series to all that keep or show something of it.
func (e *endpoint) observe(o *Observation, of *variantSeries) {
	if o.Concurrency == 0 && o.Kind != api.Scoring { // bursts are no probes, and scoring has no first token
		if e.split != nil { // before the change that the status page shows them with
			e.split.Observe(o.Result, o.Timed())
			setFact(e, "", e.split.Parts(time.Now()))
		}
		e.metrics.ObserveProbe(o.Result, !o.Timed())
	}
	of.observe(&o.Observation)
	e.users.Probed()
	e.metrics.SetServed(o.Result)
	health.Learn(e.facts, o.Result)
	e.models.Observe(o.Result)
	changeFact(e, o.Target.Name, e.changes)
	if of.kept != nil {
		e.memory.Observe(&o.Observation)
		e.record(o.Result, of)
	}
	e.fleet.Self.Observe(o.Result)
	for _, observer := range e.fleet.Observers {
		observer.Observe(o)
	}
	e.traffic.spent(o.Result)
}

func (e *endpoint) read(statuses []page.Status) {
	setFact(e, "", e.replicas.Read(statuses))
	total := page.NewTotal(statuses)
	e.week.Read(total, total != nil && e.bursts.since(total.At.Add(-time.Minute)))
	e.forecastLoss()
	e.split.Read(total, page.NewTotal(e.gateway().Latest()))
	setFact(e, "", e.split.Parts(time.Now()))
	if r := e.users.Read(statuses, e.fleet.ownGateway(e)); r != nil {
		e.health.ObserveUsers(r)
	}
	setFact(e, "", e.users.View(time.Now()))
	e.page.SetServers(statuses)
	e.memory.Read(statuses)
	e.traffic.read(statuses)
	if took := e.starts.read(statuses, e.series); took > 0 {
		setFact(e, "", health.Start{Took: took})
	}
}

// forecastLoss says what the loss of a server would mean, by the latest load test that found what the endpoint carries.
func (e *endpoint) forecastLoss() {
	now := time.Now()
	var latest *loadtest.Finding
	for _, l := range e.loads {
		if f, ok := workload.In[*loadtest.Finding](l.findings.latest()); ok && f.MaxGood != nil && (latest == nil || f.At.After(latest.At)) {
			latest = f
		}
	}
	setFact(e, "", loadtest.Forecast(latest, e.week.Now(now), e.week.Days(now), now))
}

// setFact replaces a fact of the endpoint, and reports what is new in it, by an answer to a module; "" is none.
func setFact[F workload.FactType](e *endpoint, module string, fact F) {
	changeFact(e, module, func(F) F { return fact })
}

// changeFact is setFact where the fact follows from the one before, or from what others change at the same time.
func changeFact[F workload.FactType](e *endpoint, module string, change func(before F) F) {
	before, now := workload.ChangeFact(e.facts, change)
	if news, ok := any(now).(workload.News); ok {
		if lines := news.News(before, ""); len(lines) > 0 {
			note(e.page, e.fleet.Logger.With("endpoint", e.cfg.Name), module, lines)
		}
	}
}

// burst begins a time in which the exporter puts load on the endpoint, and returns what ends it.
func (e *endpoint) burst() (end func()) {
	e.bursts.begin()
	e.metrics.CountBursts(1)
	e.restartSplit()
	return func() {
		e.metrics.CountBursts(-1)
		e.restartSplit()
		e.bursts.end(time.Now)
	}
}

// restartSplit begins the division of TTFT again, as the pages count requests that are not as probes are.
func (e *endpoint) restartSplit() {
	if e.split != nil {
		e.split.Restart()
	}
}

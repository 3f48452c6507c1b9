package health

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

const (
	// downAfter is how many failures in a row make an endpoint down of which no series
	// succeeds: one may be chance, and is confirmed at once.
	downAfter = 2
	// outdatedAfter is how many failures in a row outdate the successes of slower series
	// from before: a failure, both of its confirmations, and one of another run.
	outdatedAfter = 4
	// maxIncidents is how many incidents of an endpoint are kept.
	maxIncidents = 16
)

// Endpoint is the state of one endpoint. It is safe for concurrent use.
type Endpoint struct {
	shared *Shared
	name   string

	mu sync.Mutex
	Saved
	restored bool               // Last is of an earlier process
	series   []*Series          // in the order in which they were opened
	promise  *series.Objectives // by which users' requests are counted; nil before the first reading
	// objectives are those of all series that count.
	objectives series.Set
	skipped    string // why the latest run was left out; "" after a result
	// What goes on beside what is saved; nil is not.
	stale       *Incident
	row         *Incident // of the failures in a row
	mute        *Mute
	asleepUntil time.Time // after which the reading that showed that it sleeps is too old
	unknown     time.Time // since when there was no success, if Up is zero

	status *Status
	next   time.Time // when time alone changes the status; zero is never
}

// New returns the state of an endpoint that goes on where saved ended, of the same target; nil is nothing.
func New(name string, shared *Shared, saved *Saved) *Endpoint {
	e := &Endpoint{shared: shared, name: name, unknown: shared.Now(), mute: shared.Mutes.of(name)}
	if saved != nil {
		e.Saved, e.restored, e.asleepUntil = saved.clone(), true, e.unknown.Add(sleepsOn)
		if p := e.Paging; p != nil && p.Witness == "" { // of an earlier version
			p.Witness = Probes
		}
		e.Past = e.Past[max(0, len(e.Past)-maxIncidents):]
	}
	return e
}

// lock locks the endpoint, and returns the time.
func (e *Endpoint) lock() (now time.Time) {
	now = e.shared.Now()
	e.mu.Lock()
	return now
}

// Status returns the state.
func (e *Endpoint) Status() *Status {
	now := e.lock()
	defer e.mu.Unlock()
	if e.status == nil || !e.next.IsZero() && now.After(e.next) {
		e.refresh(now)
	}
	return e.status
}

// Incidents returns the latest incidents by their begin: at most 16 that are over, and those that go on.
func (e *Endpoint) Incidents() []Incident {
	now := e.lock()
	defer e.mu.Unlock()
	e.refresh(now)
	all := slices.Clone(e.Past)
	for _, c := range e.raised() {
		all = append(all, *c.Spell)
	}
	for _, i := range []*Incident{e.Failing, e.Slow, e.stale, e.Asleep} {
		if i != nil {
			all = append(all, *i)
		}
	}
	if e.mute != nil {
		all = append(all, *e.mute.incident())
	}
	slices.SortStableFunc(all, func(a, b Incident) int { return a.Begin.Compare(b.Begin) })
	return all
}

// OpenSeries returns the series of id, a new one where there is none. The endpoint in id is that of New.
func (e *Endpoint) OpenSeries(id result.SeriesID, o SeriesOptions) *Series {
	now := e.lock()
	defer e.mu.Unlock()
	s := e.find(id)
	if s == nil {
		s = &Series{endpoint: e, id: id, opened: now, module: e.module(id.Module, now), objectives: new(series.Objectives)}
	} else {
		e.drop(s)
	}
	e.series = append(e.series, s)
	objectives := cmp.Or(o.Objectives, new(series.Objectives))
	if *s.objectives != *objectives { // what was slow is so no more
		s.pace, s.slowNow = pace{}, false
		s.module.end(true)
		e.Lates = suspicion{}
	}
	s.objectives, s.first, s.patience = objectives, o.First, 0
	s.interval = o.Interval
	if o.Interval > 0 {
		s.patience = 3*o.Interval + o.Timeout
	}
	e.relate(now)
	return s
}

// same reports whether two values are the same, or none are there.
func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// Close forgets the series. What is observed into it later is lost.
func (s *Series) Close() {
	e := s.endpoint
	now := e.lock()
	defer e.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	e.drop(s)
	e.relate(now)
}

// Close ends the endpoint: what is observed into its series later is lost.
func (e *Endpoint) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.series {
		s.closed = true
	}
}

// module returns a module by its name, a new one where there is none.
func (e *Endpoint) module(name string, now time.Time) *module {
	i := slices.IndexFunc(e.Modules, func(m *module) bool { return m.Name == name })
	if i < 0 {
		i = len(e.Modules)
		e.Modules = append(e.Modules, &module{Name: name, Begin: now})
	}
	return e.Modules[i]
}

func (e *Endpoint) find(id result.SeriesID) *Series {
	for _, s := range e.series {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (e *Endpoint) drop(s *Series) {
	i := slices.Index(e.series, s)
	e.series = slices.Delete(e.series, i, i+1)
}

// The prefix policies of the two halves of a pair.
const (
	prefixCold = string(config.PrefixCold)
	prefixWarm = string(config.PrefixWarm)
)

// relate works out what follows from which series there are. Bursts are a load of our own making and say nothing of the
// state, unless there is nothing else: then the first does, as larger ones may fail for what they are.
func (e *Endpoint) relate(now time.Time) {
	bursts := !slices.ContainsFunc(e.series, func(s *Series) bool { return s.id.Concurrency == "" })
	first := max(0, slices.IndexFunc(e.series, func(s *Series) bool { return s.first }))
	of := map[string]int{}
	e.objectives = 0
	for i, s := range e.series {
		of[s.id.Module]++
		s.counts = s.id.Concurrency == "" || bursts && i == first
		for i := range series.NumObjectives {
			if s.counts && s.objectives.Has(i) {
				e.objectives |= 1 << i
			}
		}
	}
	if !e.restored { // those of an earlier process wait for their series
		e.Modules = slices.DeleteFunc(e.Modules, func(m *module) bool {
			return !slices.ContainsFunc(e.series, func(s *Series) bool { return s.module == m })
		})
	}
	for _, m := range e.Modules {
		m.relate(e.series)
	}
	for _, s := range e.series {
		s.before = nil
		if s.id.Prefix == prefixWarm {
			cold := s.id
			cold.Prefix = prefixCold
			s.before = e.find(cold)
		}
		s.title = s.id.Module
		if of[s.id.Module] > 1 {
			s.title = titleOf(&s.id)
		}
	}
	e.leave(now)
	e.refresh(now)
}

// leave ends the incidents of series that are gone: what is no longer asked cannot
// recover. Those of an earlier process wait for the first results.
func (e *Endpoint) leave(now time.Time) {
	has := func(bad func(*Series) bool) bool {
		return slices.ContainsFunc(e.series, func(s *Series) bool { return s.counts && bad(s) })
	}
	if e.restored {
		return
	}
	for i, c := range e.Users {
		if c != nil && !has(func(s *Series) bool { return s.objectives.Share > 0 && s.objectives.Has(series.Objective(i)) }) {
			e.forgetUsers(now)
		}
	}
	if !has(func(s *Series) bool { return s.failedNow }) {
		e.Failures = suspicion{}
		if e.Failing != nil {
			e.endFailing(now)
		}
	}
	if !has(func(s *Series) bool { return s.slowNow }) {
		e.Lates = suspicion{}
		if e.Slow != nil {
			e.endSlow(now)
		}
	}
}

func (e *Endpoint) count(s *Series, o *series.Observation) {
	r := o.Result
	gap := e.restored && s.patience > 0 && r.Start.Sub(e.Last) > s.patience
	if !e.Last.IsZero() && (e.stale != nil || gap) { // nobody knows what was before
		e.Up, e.unknown = time.Time{}, r.Start
	}
	e.Last, e.restored, e.skipped = r.Start, false, ""
	verdict := s.module.observe(series.Availability, r.Start, s.failed)
	if s.failed {
		e.fail(s, r, verdict)
		return
	}
	e.Streak, e.row = 0, nil
	if e.Up.IsZero() {
		e.Up = r.Start
	}
	if e.Failing != nil {
		e.Failing.add(r.Start, false)
	} else {
		e.Failures.pass(r.Start, s.module.gap())
		if i := lastFailing(e.Past); i >= 0 {
			e.Past[i].After++
		}
	}
	if o.Timed() && s.objectives.HasLatency() {
		e.pace(s, o)
	}
}

func (e *Endpoint) fail(s *Series, r *result.Result, verdict bool) {
	e.Streak++
	s.failedNow = true
	e.Cause = s.cause + " (" + s.title + ")"
	if i := e.Failing; i != nil {
		i.add(s.start, true)
		i.miss(verdict, verdict && s.module.promised)
		if e.Streak == 1 {
			i.Row = s.start
		}
		return
	}
	first := Incident{State: Degraded, Begin: s.start, Module: s.title, Text: safetext.Cut(s.cause, maxFirst)}
	e.Failures.add(s.start, s.module.gap(), first)
	if e.row == nil {
		e.row = new(first)
		e.logger().Info("probe failed", "module", s.title, "outcome", string(r.Outcome), "err", r.Err)
	}
	e.row.add(s.start, true)
	e.Failures.certain, e.Failures.promised = verdict, verdict && s.module.promised
}

// beginFailing begins an incident of failures that are no chance.
func (e *Endpoint) beginFailing(i *Incident) {
	i.miss(e.Failures.certain, e.Failures.promised)
	i.Row = i.Latest
	if e.row != nil {
		i.Row = e.row.Begin
	}
	e.Failing, e.Failures, e.row = i, suspicion{}, nil
	e.join()
	e.logger().Warn("endpoint failing", "module", e.Failing.Module, "since", e.Failing.Begin.UTC(), "cause", e.Cause,
		"probes", e.Failing.Probes, "failed", e.Failing.Bad)
}

func (e *Endpoint) pace(s *Series, o *series.Observation) {
	over, missed := s.pace.add(o), s.module.late(o)
	s.slowNow = s.slowNow || over
	switch {
	case e.Slow != nil:
		e.Slow.add(o.Start, over)
	case over:
		e.Lates.add(o.Start, s.module.gap(), Incident{State: Slow, Begin: o.Start, Module: s.title, Text: s.title + ": " + s.pace.last.String()})
	default:
		e.Lates.pass(o.Start, s.module.gap())
	}
	if e.Slow == nil && missed != 0 && e.Lates.Incident != nil {
		e.Slow, e.Lates = e.Lates.Incident, suspicion{}
		e.logger().Warn("endpoint slow", "module", e.Slow.Module, "since", e.Slow.Begin.UTC(), "reason", e.Slow.Text, "answers", e.Slow.Probes, "over", e.Slow.Bad)
	}
	if e.Slow != nil {
		e.Slow.Missed |= missed
	}
}

func (e *Endpoint) endClean(now time.Time) {
	v := e.judge(now)
	if e.Failing != nil && v.failed == 0 && e.Failing.isOver(e.Last) && !e.clusters() {
		e.endFailing(e.Failing.Good)
	}
	if e.Slow != nil && v.slow == 0 && e.Slow.isOver(e.Last) {
		e.endSlow(e.Slow.Good)
	}
}

func (e *Endpoint) endFailing(end time.Time) {
	i := e.Failing
	e.Failing, e.Down, e.Streak, e.Cause = nil, false, 0, ""
	for _, s := range e.series {
		s.failedNow, s.cause = false, ""
	}
	for _, m := range e.Modules {
		m.end(false)
	}
	e.end(i, end)
	e.logger().Info("endpoint recovered", "module", i.Module, "since", i.Begin.UTC(), "duration", i.End.Sub(i.Begin).Round(time.Second),
		"probes", i.Probes, "failed", i.Bad, "spells", i.Spells)
}

func (e *Endpoint) endSlow(end time.Time) {
	i := e.Slow
	e.Slow = nil
	for _, s := range e.series {
		s.slowNow = false
	}
	for _, m := range e.Modules {
		m.end(true)
	}
	e.end(i, end)
	e.logger().Info("endpoint within its objectives again", "module", i.Module, "since", i.Begin.UTC(),
		"duration", i.End.Sub(i.Begin).Round(time.Second), "answers", i.Probes, "over", i.Bad)
}

func (e *Endpoint) end(i *Incident, end time.Time) {
	i.finish(end)
	if end.After(e.Up) {
		e.Up = end
	}
	e.keep(*i)
}

func (e *Endpoint) keep(i Incident) { e.Past = stats.AppendLatest(e.Past, i, maxIncidents) }

func (e *Endpoint) unmute(end time.Time) {
	i := e.mute.incident()
	i.End = end
	e.mute = nil
	e.keep(*i)
	e.logger().Info("endpoint no longer muted", "since", i.Begin.UTC(), "reason", i.Text)
}

func (m *Mute) incident() *Incident {
	return &Incident{State: Muted, Begin: m.At, Text: m.Reason}
}

// refresh does what time alone does, and makes the status; e.mu is held.
func (e *Endpoint) refresh(now time.Time) {
	if e.mute != nil && e.mute.isOver(now) {
		e.unmute(e.mute.Until)
	}
	if e.Asleep != nil && now.After(e.asleepUntil) {
		e.wake(now)
	}
	v := e.judge(now)
	if v.isStale() != (e.stale != nil) {
		e.turnStale(v, now)
	}
	if v.judged > 0 {
		down := (e.Failing != nil || e.Failures.Incident != nil) && (v.failed == v.judged && e.Streak >= downAfter ||
			v.failed > 0 && v.failed+v.outdated == v.judged && e.Streak >= outdatedAfter)
		switch {
		case e.Failing != nil:
		case down:
			e.beginFailing(cmp.Or(e.row, e.Failures.Incident)) // one of an earlier process has no row
		case e.Failures.certain:
			e.beginFailing(e.Failures.Incident)
		}
		e.setDown(down)
	}
	e.endSilence(now)
	e.page()
	if s := e.makeStatus(v, now); e.status == nil || !s.equal(e.status) {
		e.status = s
	}
	e.next = v.next
	if e.Asleep != nil {
		e.next = e.asleepUntil
	}
	if e.mute != nil && (e.next.IsZero() || e.mute.Until.Before(e.next)) {
		e.next = e.mute.Until.Add(-1) // After is later than that
	}
}

func (e *Endpoint) turnStale(v verdict, now time.Time) {
	if e.stale == nil {
		e.stale = &Incident{State: Stale, Begin: v.until, Text: "no result for 3 intervals and a timeout" + e.because()}
		e.logger().Warn("endpoint stale", "reason", e.stale.Text)
		return
	}
	i := e.stale
	e.stale = nil
	i.End = now
	if e.Last.After(i.Begin) {
		i.End = e.Last
	}
	e.keep(*i)
	e.logger().Info("endpoint no longer stale", "since", i.Begin.UTC(), "duration", i.End.Sub(i.Begin).Round(time.Second))
}

func (e *Endpoint) logger() *slog.Logger { return e.shared.Logger.With("endpoint", e.name) }

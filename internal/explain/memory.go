package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/answers"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

const (
	// recentProbes is how many probes of a series are kept to explain a state, and paceProbes how many of the latest
	// answers make the latency of now; it takes minPace.
	recentProbes, paceProbes, minPace = 12, 5, 3
	// recentSkips is how long a skipped run counts.
	recentSkips = 15 * time.Minute
)

// Memory is what is kept of one endpoint to explain its state, beside what the status page keeps. It is safe for
// concurrent use.
type Memory struct {
	endpoint *config.Endpoint

	mu       sync.Mutex
	skips    []skipped // the latest, the oldest first
	well     time.Time // start of the latest probe that succeeded; zero is never
	readings readings
	clocks   map[string]string // why those of GPUs were reduced last, by UUID; "" is not
}

// NewMemory returns that of an endpoint of which nothing is known.
func NewMemory(e *config.Endpoint) *Memory { return &Memory{endpoint: e} }

// Series is one series of an endpoint that is no burst.
type Series struct {
	// Title names it so that those of a module differ.
	Title string
	// Objectives may be nil.
	Objectives *series.Objectives
	Log        *series.Log
	// Steps returns the lasting changes of the level; nil is none.
	Steps func() []Step
}

// latest returns the probes of the series that explain its state, the oldest first: the latest ones, and those that failed
// since an instant.
func (s *Series) latest(failed time.Time) []*Probe {
	var all []*Probe
	for _, k := range s.Log.Recent(recentProbes, failed) {
		r := k.Result()
		p := &Probe{
			Start: r.Start, Module: s.Title, Outcome: r.Outcome, Status: r.Status, Reason: k.Reason(), StartLag: r.StartLag,
			Timing: r.Timing, Server: r.Server, Buffered: r.Buffered, Imprecise: r.Imprecise, Stall: r.Stall,
		}
		if r.Err != nil {
			p.Error = safetext.Line(r.Err.Error(), maxErrorBytes)
		}
		all = append(all, p)
	}
	return all
}

type skipped struct {
	at     time.Time
	reason result.SkipReason
	text   string
}

const maxSkips = 32

// Observe takes a result of a series. What ran beside a burst, which is a load of our own, says nothing.
func (m *Memory) Observe(o *series.Observation) {
	if o.Outcome != result.Success || o.Disturbed {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.well = o.Start
}

// Adopt takes over what the memory of the same endpoint with other settings has.
func (m *Memory) Adopt(before *Memory) {
	before.mu.Lock()
	defer before.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skips, m.well, m.readings, m.clocks = before.skips, before.well, before.readings, before.clocks
}

// LastWell returns when the latest probe started that succeeded; zero is never.
func (m *Memory) LastWell() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.well
}

// Skip takes a run that was left out; text is what to change, "" where that is known from the reason.
func (m *Memory) Skip(reason result.SkipReason, text string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skips = stats.AppendLatest(m.skips, skipped{now, reason, text}, maxSkips)
}

// Complete adds what is known of the endpoint, of its series, of its GPUs and of the gateway in front of it to evidence
// that has the time, the state, the findings and the parts of TTFT. What is nil is not known.
func (m *Memory) Complete(e *Evidence, all []*Series, gpus gpu.Snapshots, gateway *Gateway) {
	e.Endpoint, e.Engine, e.NoKey = m.endpoint.Name, cmp.Or(e.Engine, m.endpoint.Servers.Engine), !m.endpoint.HasKey()
	for _, g := range GPUsOf(m.endpoint, gpus) {
		kept := &gpu.DeviceSnapshot{UUID: g.UUID, Name: g.Name, Up: g.Up, Processes: g.Processes}
		kept.Readings = slices.DeleteFunc(slices.Clone(g.Readings), func(r gpu.Reading) bool { return !reduces(r) })
		e.GPUs = append(e.GPUs, kept)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	latest := make([][]*Probe, len(all))
	failed := e.At
	if e.isFailing() {
		failed = e.Since.Add(-slack)
	}
	for i, r := range all {
		latest[i] = r.latest(failed)
	}
	began := e.nowBegan(latest)
	var from time.Time // of the latencies of now: what was answered before it failed is past
	if e.isFailing() {
		from = began
	}
	for i, r := range all {
		if len(latest[i]) == 0 {
			continue
		}
		e.Probes = append(e.Probes, latest[i]...)
		speed := r.speed(latest[i], from)
		speed.TTFT.Usual, speed.TPOT.Usual = r.Log.Usual(began)
		e.Speeds = append(e.Speeds, speed)
		if r.Steps != nil {
			for _, step := range r.Steps() {
				step.Module = r.Title
				e.Steps = append(e.Steps, step)
			}
		}
	}
	slices.SortStableFunc(e.Probes, func(a, b *Probe) int { return a.Start.Compare(b.Start) })
	e.Succeeded = !m.well.IsZero()
	if e.Servers = m.readings.evidence(began, time.Duration(m.endpoint.Servers.Interval)); e.Servers != nil {
		e.Servers.Idle = m.readings.idle(e.Probes)
	}
	e.Gateway = gateway.evidence(began)
	e.Exporter = Exporter{Skipped: map[result.SkipReason]int{}, SkippedAt: map[result.SkipReason]time.Time{}}
	for _, s := range m.skips {
		if e.At.Sub(s.at) <= recentSkips {
			e.Exporter.Skipped[s.reason]++
			e.Exporter.SkippedAt[s.reason], e.Exporter.Text = s.at, cmp.Or(s.text, e.Exporter.Text)
		}
	}
}

// AddFindings adds what many results of a module show: the latest changes of what should stay the same, the signs of
// corruption that more answers have than usual, and what its load tests came to.
func (e *Evidence) AddFindings(module string, all *workload.Findings) {
	if found, ok := workload.In[*drift.Finding](all); ok {
		for i, source := range drift.Sources() {
			if at := found.LastChange[i]; !at.IsZero() {
				e.Changes = append(e.Changes, Change{At: at, Module: module, What: string(source)})
			}
		}
	}
	if found, ok := workload.In[*loadtest.Finding](all); ok {
		e.LoadTest = &LoadTest{found.At, found.MaxGood, found.Knee}
	}
	if found, ok := workload.In[*answers.Finding](all); ok {
		for i, finding := range result.Signs() {
			if s := &found.Signs[i]; s.IsRaised() {
				e.Corruptions = append(e.Corruptions, fmt.Sprintf("answers with %s since %s: %s (module %s)", finding.Description(), date(s.Since), s, module))
			}
		}
	}
}

// StateOfProbes returns the state by the probes in logs alone, which began then.
func StateOfProbes(all []*Series, began time.Time) health.State {
	probes, failed, slow := 0, 0, false
	for _, r := range all {
		latest := r.latest(began)
		probes += len(latest)
		failed += stats.Count(latest, (*Probe).Failed)
		now := r.speed(latest, began)
		slow = slow || now.TTFT.overObjective() || now.TPOT.overObjective() || now.E2E.overObjective()
	}
	switch {
	case probes == 0:
		return health.Waiting
	case failed == probes:
		return health.Down
	case failed > 0:
		return health.Degraded
	case slow:
		return health.Slow
	}
	return health.Up
}

// nowBegan returns when that began which the latencies of now are of: with the state, and while the endpoint is up with
// the latest answers.
func (e *Evidence) nowBegan(latest [][]*Probe) time.Time {
	began := e.Since
	if e.State == health.Up || began.IsZero() {
		began = time.Time{}
		for _, probes := range latest {
			if len(probes) == 0 {
				continue
			}
			if at := probes[max(0, len(probes)-paceProbes)].Start; began.IsZero() || at.Before(began) {
				began = at
			}
		}
	}
	return began
}

// speed returns the latencies of the latest answers since an instant.
func (s *Series) speed(probes []*Probe, from time.Time) Speed {
	var ttft, tpot, whole []float64
	for _, p := range slices.Backward(probes) {
		if p.Failed() || p.Imprecise || p.Start.Before(from) || len(whole) == paceProbes {
			continue
		}
		whole = append(whole, p.Timing.Duration.Seconds())
		if p.Timing.TTFT >= 0 {
			ttft = append(ttft, p.Timing.TTFT.Seconds())
		}
		if p.Timing.TPOT >= 0 {
			tpot = append(tpot, p.Timing.TPOT.Seconds())
		}
	}
	o := cmp.Or(s.Objectives, new(series.Objectives))
	return Speed{Module: s.Title, TTFT: latencyOf(ttft, o.TTFT), TPOT: latencyOf(tpot, o.TPOT), E2E: latencyOf(whole, o.E2E)}
}

// latencyOf returns the median of some values with its objective; 0 is none.
func latencyOf(values []float64, objective time.Duration) Level {
	l := Level{Now: stats.MedianOf(values, minPace)}
	if objective > 0 {
		l.Objective = new(objective.Seconds())
	}
	return l
}

// ClockChanges returns in words which GPUs of the endpoint began or ceased to have reduced clocks since the last call.
func (m *Memory) ClockChanges(s gpu.Snapshots) []string {
	var changes []string
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range GPUsOf(m.endpoint, s) {
		why := strings.Join(throttle(g), ", ")
		before, known := m.clocks[g.UUID]
		switch {
		case !known && m.clocks == nil:
			m.clocks = map[string]string{}
		case known && why != before && why != "":
			changes = append(changes, fmt.Sprintf("clocks of %s reduced: %s", g.UUID, why))
		case known && why != before:
			changes = append(changes, fmt.Sprintf("clocks of %s no longer reduced", g.UUID))
		}
		m.clocks[g.UUID] = why
	}
	return changes
}

// GPUsOf returns the cards that the configuration says the endpoint runs on.
func GPUsOf(e *config.Endpoint, all gpu.Snapshots) []*gpu.DeviceSnapshot {
	if e.Hardware == nil {
		return nil
	}
	var cards []*gpu.DeviceSnapshot
	for _, d := range all.Devices() {
		if slices.Contains(e.Hardware.UUIDs, d.UUID) {
			cards = append(cards, d)
		}
	}
	return cards
}

// throttle returns the reasons for reduced clocks of a card that are a fault: idle clocks, configured ones and the power
// limit under full load are none.
func throttle(d *gpu.DeviceSnapshot) []string {
	var reasons []string
	for _, r := range d.Readings {
		if reduces(r) {
			reasons = append(reasons, r.Label)
		}
	}
	return reasons
}

// reduces reports whether a reading is such a reason.
func reduces(r gpu.Reading) bool {
	return r.Kind == gpu.ClockEventActive && r.Value == 1 && slices.Contains([]string{"hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"}, r.Label)
}

// busyNeighbour is the share of the multiprocessors from which a program disturbs others.
const busyNeighbour = 0.05

// neighbours names the programs that use a card beside those like the one with the most memory, which is the server.
func neighbours(all []gpu.ProcessReading) []string {
	if len(all) < 2 {
		return nil
	}
	largest := slices.MaxFunc(all, func(a, b gpu.ProcessReading) int { return cmp.Compare(a.MemoryUsed, b.MemoryUsed) })
	var names []string
	for _, p := range all {
		same := p.PID == largest.PID || p.Container != "" && p.Container == largest.Container || p.Container == "" && p.Name == largest.Name
		if !same && p.SMUtilization >= busyNeighbour {
			names = append(names, fmt.Sprintf("%s (pid %d, %.0f %% of the multiprocessors)", cmp.Or(p.Name, "a program"), p.PID, 100*p.SMUtilization))
		}
	}
	return names
}

package fleet

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/answers"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
)

const (
	// recentProbes is how many probes of a series are kept to explain a state, and
	// paceProbes how many of the latest answers make the latency of now; it takes
	// minPace.
	recentProbes, paceProbes, minPace = 12, 5, 3
	// recentSkips is how long a skipped run counts.
	recentSkips = 15 * time.Minute
)

// memory is what is kept of one endpoint to explain its state, beside what the status
// page keeps. It is safe for concurrent use.
type memory struct {
	endpoint *config.Endpoint
	identity *identity
	findings []*findings
	parts    *ttftParts // nil where pages are not read

	mu       sync.Mutex
	series   []*remembered // in the order in which they had their first result
	skips    []skipped     // the latest, the oldest first
	well     time.Time     // start of the latest probe that succeeded; zero is never
	served   servedModel
	readings *readings         // nil before the first
	clocks   map[string]string // why those of GPUs were reduced last, by UUID; "" is not
}

// remembered is one series.
type remembered struct {
	id         result.SeriesID
	title      string
	objectives *series.Objectives // nil is none
	log        *series.Log
}

// latest returns the probes of the series that explain its state, the oldest first.
func (r *remembered) latest() []explain.Probe {
	var all []explain.Probe
	for _, k := range r.log.Recent(recentProbes) {
		all = append(all, explain.NewProbe(r.title, k.Result(), k.Reason()))
	}
	return all
}

// skipped is a run that was due and did not happen.
type skipped struct {
	at     time.Time
	reason result.SkipReason
	text   string
}

// maxSkips bounds the skipped runs that are kept.
const maxSkips = 32

// observe takes a result that is in the log of its series. Bursts are a load of our own, and
// so is what ran beside one.
func (m *memory) observe(o *Observation, log *series.Log) {
	if o.Outcome == result.Canceled || o.Disturbed || o.Concurrency > 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id := variantOf(o.Result).id(o.Target.id())
	r := m.of(id)
	if r == nil {
		r = &remembered{id: id, title: titleOf(id, o.Target.Module)}
		m.series = append(m.series, r)
	}
	r.log, r.objectives = log, o.Target.objectives()
	if o.Outcome == result.Success {
		m.well = o.Start
		m.served.note(o.Result, r.title)
	}
}

// of returns a series; nil before its first result. m.mu is held.
func (m *memory) of(id result.SeriesID) *remembered {
	i := slices.IndexFunc(m.series, func(r *remembered) bool { return r.id == id })
	if i < 0 {
		return nil
	}
	return m.series[i]
}

// adopt takes over what the memory of the same endpoint with other settings has of the
// series that stay.
func (m *memory) adopt(before *memory, stay []result.SeriesID) {
	before.mu.Lock()
	defer before.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range before.series {
		if slices.Contains(stay, r.id) {
			m.series = append(m.series, r)
		}
	}
	m.skips, m.well, m.readings, m.clocks = before.skips, before.well, before.readings, before.clocks
	m.served = before.served
}

// titleOf names a series so that those of a module differ.
func titleOf(id result.SeriesID, m *config.Module) string {
	parts := []string{id.Module}
	if len(variantsOf(m)) > 1 && len(m.Concurrency) == 0 {
		parts = append(parts, id.Prefix)
	}
	for _, length := range []string{id.InputTokens, id.OutputTokens} {
		if length != "" {
			parts = append(parts, length)
		}
	}
	return strings.Join(parts, " ")
}

// lastWell returns when the latest probe started that succeeded; zero is never.
func (m *memory) lastWell() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.well
}

// skip takes a run that was left out; text is what to change, "" where that is known
// from the reason.
func (m *memory) skip(reason result.SkipReason, text string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skips = stats.AppendLatest(m.skips, skipped{now, reason, text}, maxSkips)
}

// evidence returns what is known of the endpoint in a state, but for what other endpoints
// show. stepsBefore returns the steps of a series; nil where none are kept.
func (m *memory) evidence(s endpointState, now time.Time, stepsBefore func(result.SeriesID) []status.Step, gpus gpu.Snapshots) *explain.Evidence {
	e := &explain.Evidence{
		At: now, Endpoint: m.endpoint.Name, Engine: cmp.Or(m.identity.get().Engine, m.endpoint.Servers.Engine),
		State: s.state, Since: s.since, Failing: s.failing, NoKey: !m.endpoint.HasKey(),
		GPUs: gpusOf(m.endpoint, gpus), Changes: m.changes(), Corruptions: m.corruptions(),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e.Changes = append(e.Changes, m.served.changes()...)
	latest := make([][]explain.Probe, len(m.series))
	for i, r := range m.series {
		latest[i] = r.latest()
	}
	began := nowBegan(s, latest)
	var from time.Time // of the latencies of now: what was answered before it failed is past
	if s.state != health.Up && s.state != health.Slow {
		from = began
	}
	for i, r := range m.series {
		e.Probes = append(e.Probes, latest[i]...)
		speed := r.speed(latest[i], from)
		speed.TTFT.Usual, speed.TPOT.Usual = r.log.Usual(began)
		e.Speeds = append(e.Speeds, speed)
		if stepsBefore != nil {
			e.Steps = append(e.Steps, stepsOf(r.title, stepsBefore(r.id))...)
		}
	}
	slices.SortStableFunc(e.Probes, func(a, b explain.Probe) int { return a.At.Compare(b.At) })
	e.Succeeded = !m.well.IsZero()
	if m.readings != nil {
		e.Servers = m.readings.evidence(began, time.Duration(m.endpoint.Servers.Interval))
	}
	if e.Servers != nil {
		e.Servers.Idle = m.readings.idle(e.Probes)
	}
	e.TTFTParts = m.parts.evidence(now)
	e.Gateway = m.parts.front().evidence(began)
	e.Exporter = m.exporter(now)
	return e
}

// stepsOf returns the steps of a series in the terms of the rules.
func stepsOf(title string, steps []status.Step) []explain.Step {
	all := make([]explain.Step, len(steps))
	for i, s := range steps {
		all[i] = explain.Step{
			At: s.Time(), Module: title, Metric: explain.StepMetric(s.Metric), Before: s.Before, After: s.After, Beside: s.Beside,
		}
	}
	return all
}

// nowBegan returns when that began which the latencies of now are of: with the state, and
// while the endpoint is up with the latest answers.
func nowBegan(s endpointState, latest [][]explain.Probe) time.Time {
	began := s.since
	if s.state == health.Up || began.IsZero() {
		began = time.Time{}
		for _, probes := range latest {
			if len(probes) == 0 {
				continue
			}
			if at := probes[max(0, len(probes)-paceProbes)].At; began.IsZero() || at.Before(began) {
				began = at
			}
		}
	}
	return began
}

// speed returns the latencies of the latest answers since an instant.
func (r *remembered) speed(probes []explain.Probe, from time.Time) explain.Speed {
	var ttft, tpot, whole []float64
	for i := len(probes) - 1; i >= 0 && len(whole) < paceProbes; i-- {
		p := &probes[i]
		if p.Failed() || p.Imprecise || p.At.Before(from) {
			continue
		}
		whole = append(whole, p.Duration.Seconds())
		if p.TTFT >= 0 {
			ttft = append(ttft, p.TTFT.Seconds())
		}
		if p.TPOT >= 0 {
			tpot = append(tpot, p.TPOT.Seconds())
		}
	}
	objectives := r.objectives
	if objectives == nil {
		objectives = new(series.Objectives)
	}
	return explain.Speed{
		Module: r.title, TTFT: latencyOf(ttft, objectives.TTFT), TPOT: latencyOf(tpot, objectives.TPOT), E2E: latencyOf(whole, objectives.E2E),
	}
}

// latencyOf returns the median of some values with its objective; 0 is none.
func latencyOf(values []float64, objective time.Duration) explain.Latency {
	l := explain.Latency{Now: stats.MedianOf(values, minPace)}
	if objective > 0 {
		l.Objective = new(objective.Seconds())
	}
	return l
}

// changes returns the latest changes of what should stay the same.
func (m *memory) changes() []explain.Change {
	var all []explain.Change
	for _, f := range m.findings {
		f.mu.Lock()
		last := f.last
		f.mu.Unlock()
		found, ok := workload.In[*drift.Finding](last)
		if !ok {
			continue
		}
		for i, source := range drift.Sources() {
			if at := found.LastChange[i]; !at.IsZero() {
				all = append(all, explain.Change{At: at, Module: f.id.Module, What: string(source)})
			}
		}
	}
	return all
}

// corruptions returns the signs of corruption that more answers have than usual.
func (m *memory) corruptions() []explain.Corruption {
	var all []explain.Corruption
	for _, f := range m.findings {
		f.mu.Lock()
		last := f.last
		f.mu.Unlock()
		found, ok := workload.In[*answers.Finding](last)
		if !ok {
			continue
		}
		for i, finding := range result.Signs() {
			if s := &found.Signs[i]; s.IsRaised() {
				all = append(all, explain.Corruption{Module: f.id.Module, What: finding.Description(), Share: s.String(), Since: s.Since})
			}
		}
	}
	return all
}

// exporter returns the runs that were left out lately.
func (m *memory) exporter(now time.Time) explain.Exporter {
	e := explain.Exporter{Skipped: map[result.SkipReason]int{}, SkippedAt: map[result.SkipReason]time.Time{}}
	for _, s := range m.skips {
		if now.Sub(s.at) > recentSkips {
			continue
		}
		e.Skipped[s.reason]++
		e.SkippedAt[s.reason], e.Text = s.at, cmp.Or(s.text, e.Text)
	}
	return e
}

// clockChanges returns in words which GPUs of the endpoint began or ceased to have reduced
// clocks since the last call.
func (m *memory) clockChanges(s gpu.Snapshots) []string {
	var changes []string
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range gpusOf(m.endpoint, s) {
		why := strings.Join(g.Throttle, ", ")
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

// gpusOf returns the cards that the configuration says the endpoint runs
// on.
func gpusOf(e *config.Endpoint, all gpu.Snapshots) []explain.GPU {
	if e.Hardware == nil {
		return nil
	}
	var cards []explain.GPU
	for _, d := range all.Devices() {
		if slices.Contains(e.Hardware.UUIDs, d.UUID) {
			cards = append(cards, gpuOf(d))
		}
	}
	return cards
}

func gpuOf(d *gpu.DeviceSnapshot) explain.GPU {
	g := explain.GPU{UUID: d.UUID, Name: d.Name, Lost: !d.Up, Neighbours: neighbours(d.Processes)}
	for _, r := range d.Readings {
		switch {
		case r.Kind == gpu.Utilization:
			g.Utilization = new(r.Value)
		case r.Kind == gpu.ClockEventActive && r.Value == 1 && isThrottle(r.Label):
			g.Throttle = append(g.Throttle, r.Label)
		}
	}
	return g
}

// isThrottle reports whether a reason for reduced clocks is a fault: idle clocks,
// configured ones and the power limit under full load are none.
func isThrottle(reason string) bool {
	return slices.Contains([]string{"hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"}, reason)
}

// busyNeighbour is the share of the multiprocessors from which a program disturbs
// others.
const busyNeighbour = 0.05

// neighbours names the programs that use a card beside those like the one with the most
// memory, which is the server.
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

// factorsOf returns what an endpoint may have in common with others.
func factorsOf(e *config.Endpoint) []explain.Factor {
	host := e.URL.Hostname()
	all := []explain.Factor{{Kind: "gateway", Value: cmp.Or(e.Gateway, e.URL.Host)}, {Kind: "host", Value: host}}
	if e.Hardware != nil {
		for _, uuid := range e.Hardware.UUIDs {
			all = append(all, explain.Factor{Kind: "gpu", Value: uuid})
		}
	}
	for name, value := range e.Labels {
		if value != "" && slices.Contains(explain.Kinds(), name) {
			all = append(all, explain.Factor{Kind: name, Value: value})
		}
	}
	if _, err := netip.ParseAddr(host); err != nil {
		if _, domain, ok := strings.Cut(host, "."); ok {
			all = append(all, explain.Factor{Kind: "dns", Value: domain})
		}
	}
	return all
}

// lostServers returns how many servers are known and up, and names those that do not
// answer.
func lostServers(statuses []page.Status) (up int, lost []string) {
	for i := range statuses {
		switch st := &statuses[i]; st.State {
		case page.Up:
			up++
		case page.Down:
			lost = append(lost, fmt.Sprintf("%s: %s: %v", st.Server, st.Reason, st.Err))
		}
	}
	return up, lost
}

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/prober"
)

// causesAge is how old the causes of all endpoints may be that one is compared with.
const causesAge = 5 * time.Second

// explainer explains the states of endpoints by what is kept of them. It is safe for
// concurrent use.
type explainer struct {
	*Options
	active *atomic.Pointer[members]
	found  atomic.Pointer[causes]
}

// causes are those of all endpoints that are not up, at one time. They are never changed.
type causes struct {
	at     time.Time
	top    map[string]explain.Cause
	shared map[string]*explain.Shared
}

func newExplainer(o *Options, active *atomic.Pointer[members]) *explainer {
	x := &explainer{Options: o, active: active}
	x.found.Store(&causes{})
	return x
}

// stateOf returns the state of an endpoint as it is and as it would be without a mute;
// nil for an endpoint that is not there.
func (x *explainer) stateOf(name string) (*health.Status, explain.Condition) {
	e := x.Health.Endpoint(name)
	if e == nil {
		return nil, explain.Condition{}
	}
	s := e.Status()
	c := explain.Condition{State: s.Unmuted, Since: s.UnmutedSince}
	if s.Failed > 0 {
		c.Failing = &explain.Tally{Failed: s.Failed, Of: s.Probes, Spells: s.Spells}
	}
	return s, c
}

// evidence returns what is known of a member, but for what other endpoints show.
func (x *explainer) evidence(m *member, c explain.Condition, now time.Time, gpus gpu.Snapshots) *explain.Evidence {
	e := &explain.Evidence{At: now, Condition: c, Engine: m.identity.get().Engine, TTFTParts: m.parts.now(now)}
	for _, f := range m.findings {
		e.AddFindings(f.id.Module, f.latest())
	}
	m.memory.Complete(e, explain.Senses{GPUs: gpus, Gateway: m.parts.front(), Steps: x.steps})
	return e
}

// steps returns the steps of a series in the terms of the rules.
func (x *explainer) steps(of *explain.Series) []explain.Step {
	var all []explain.Step
	for _, s := range x.Board.Steps(of.ID) {
		all = append(all, explain.Step{
			At: s.Time(), Module: of.Title, Metric: s.Metric, Before: s.Before, After: s.After, Beside: s.Beside,
		})
	}
	return all
}

// explain returns what is known of an endpoint; false without one of this name.
func (x *explainer) explain(name string) (*explain.Report, bool) {
	m := (*x.active.Load())[name]
	status, c := x.stateOf(name)
	if m == nil || status == nil {
		return nil, false
	}
	now := time.Now()
	found := x.found.Load()
	if now.Sub(found.at).Abs() > causesAge {
		found = x.find(now)
	}
	e := x.evidence(m, c, now, x.gpuSnapshots())
	e.Common = found.shared[name]
	report := explained(e)
	report.State, report.Since = string(status.State), unixSeconds(status.Since)
	return report, true
}

// explained returns the report of evidence.
func explained(e *explain.Evidence) *explain.Report {
	return &explain.Report{At: unixSeconds(e.At), Endpoint: e.Endpoint, State: string(e.State), Findings: explain.Explain(e)}
}

// unixSeconds returns t as a Unix time in seconds, exact to a millisecond.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

func (x *explainer) gpuSnapshots() gpu.Snapshots {
	if x.GPUs == nil {
		return nil
	}
	return x.GPUs()
}

// find finds the causes of all endpoints that are not up, and what they have in common.
func (x *explainer) find(now time.Time) *causes {
	gpus := x.gpuSnapshots()
	var peers []explain.Peer
	found := &causes{at: now, top: map[string]explain.Cause{}}
	active := *x.active.Load()
	for _, name := range slices.Sorted(maps.Keys(active)) {
		m := active[name]
		_, c := x.stateOf(name)
		p := explain.Peer{Endpoint: name, Since: c.Since, Well: m.memory.LastWell(), Factors: factorsOf(m.endpoint)}
		switch c.State {
		case "":
			continue // it went meanwhile
		case health.Up:
			p.Cause = explain.Healthy
		default:
			p.Cause = explain.Explain(x.evidence(m, c, now, gpus))[0].Cause
			if c.State != health.Waiting || p.Cause != explain.Unknown {
				found.top[name] = p.Cause
			}
			if c.State == health.Waiting || c.State == health.Stale && p.Well.IsZero() {
				p.Cause = "" // never probed: it does not fail
			}
		}
		peers = append(peers, p)
	}
	found.shared = explain.InCommon(peers)
	for name := range found.shared {
		found.top[name] = explain.SharedCause
	}
	x.found.Store(found)
	return found
}

// cause returns the likeliest cause of what ails an endpoint, as it was found last; ""
// while it is up. It looks for it where the state is newer than that.
func (x *explainer) cause(name string) explain.Cause {
	_, c := x.stateOf(name)
	switch c.State {
	case "", health.Up:
		return ""
	case health.Waiting:
		return x.found.Load().top[name]
	}
	if cause := x.found.Load().top[name]; cause != "" {
		return cause
	}
	return x.find(time.Now()).top[name]
}

// WatchCauses finds the causes of what ails endpoints every few seconds, until ctx ends,
// and shows them on the status page.
func (f *Fleet) WatchCauses(ctx context.Context) error {
	tick := time.NewTicker(causesAge)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			found := f.explains.find(time.Now())
			gpus := f.explains.gpuSnapshots()
			for name, m := range *f.active.Load() {
				f.Board.SetCause(name, found.top[name])
				for _, change := range m.memory.ClockChanges(gpus) {
					f.Board.AddEvent(name, change)
				}
			}
		case <-ctx.Done():
			return nil
		}
	}
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

// ExplainOnce probes a target so many times, reads the pages of its servers meanwhile,
// and returns what that shows. What is usual there it cannot know.
func ExplainOnce(ctx context.Context, t Target, times int) (*explain.Report, error) {
	dialer := prober.NewDialer()
	defer dialer.Close()
	p, err := t.NewProber(dialer)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	mappings, err := page.NewMappings(nil)
	if err != nil {
		return nil, err
	}
	pages, err := network{dialer: dialer}.Reader(t.Endpoint, mappings)
	if err != nil {
		return nil, err
	}
	defer pages.Close()
	began := time.Now()
	m := &once{memory: explain.NewMemory(t.Endpoint), identity: identity{known: page.Known{Model: t.Endpoint.Model}}, logs: map[result.SeriesID]*series.Log{}}
	for range times {
		stop := m.watch(ctx, pages)
		results := p.Run(ctx, 0)
		stop()
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("explain %s: %w", t.Endpoint.URL, err)
		}
		m.take(results)
	}
	e := &explain.Evidence{At: time.Now(), Condition: explain.Condition{State: m.memory.StateOfProbes(began), Since: began}, Engine: m.identity.get().Engine}
	m.memory.Complete(e, explain.Senses{})
	return explained(e), nil
}

// once is what is known of an endpoint that is asked a few times.
type once struct {
	memory   *explain.Memory
	identity identity
	logs     map[result.SeriesID]*series.Log
}

// watch reads pages every second until stop is called, and once then.
func (o *once) watch(ctx context.Context, pages Reader) (stop func()) {
	read := func() {
		statuses := pages.Scrape(ctx, o.identity.get())
		o.memory.Read(present(statuses))
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.Tick(time.Second); ; {
			select {
			case <-tick:
				read()
			case <-ended:
				read()
				return
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}

// take takes the results of a run.
func (o *once) take(all Results) {
	for _, rung := range all {
		if rung.Skip != nil {
			o.memory.Skip(rung.Skip.Reason, rung.Skip.Text, time.Now())
		}
		for _, r := range rung.Results {
			o.identity.learn(r)
			of := variantOf(r).id(rung.Target.id())
			if o.logs[of] == nil {
				o.logs[of] = new(series.Log)
			}
			seen := observe(rung.Target, r, false, false)
			o.logs[of].Add(&seen.Observation)
			seen.remember(o.memory, o.logs[of])
		}
	}
}

// remember adds the result, which is in a log, to what explains the state of its endpoint.
func (o *Observation) remember(m *explain.Memory, log *series.Log) {
	id := variantOf(o.Result).id(o.Target.id())
	m.Observe(&o.Observation, explain.Series{ID: id, Title: titleOf(id, o.Target.Module), Objectives: o.Target.objectives(), Log: log})
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

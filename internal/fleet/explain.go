package fleet

import (
	"cmp"
	"context"
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

package fleet

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober"
)

// causesAge is how old the causes of all endpoints may be that one is compared with.
const causesAge = 5 * time.Second

// causes are those of all endpoints that are not up, at one time. They are never changed.
type causes struct {
	at     time.Time
	top    map[string]explain.Cause
	alone  map[string]explain.Cause // but for what several have in common
	shared map[string]*explain.Shared
}

// condition returns the state of an endpoint as it is and as it would be without a mute.
func (e *endpoint) condition() (*health.Status, explain.Condition) {
	s := e.health.Status()
	c := explain.Condition{State: s.Unmuted, Since: s.UnmutedSince, Failed: s.Failed, Of: s.Probes, Spells: s.Spells, Users: s.Users}
	if s.Paging != nil {
		c.Witness = s.Paging.Witness
	}
	return s, c
}

// suspected is condition while the latest results look like something that may be chance.
func suspected(i *health.Incident) explain.Condition {
	return explain.Condition{State: i.State, Since: i.Begin, Failed: i.Bad, Of: i.Probes}
}

// evidence returns what is known of an endpoint, but for what other endpoints show.
func (e *endpoint) evidence(c explain.Condition, now time.Time, gpus gpu.Snapshots) *explain.Evidence {
	known := &explain.Evidence{At: now, Condition: c, Facts: explain.FactsOf(e.facts.Latest()), Engine: knownOf(e.facts).Engine}
	for _, f := range e.findings {
		known.AddFindings(f.Name, f.latest())
	}
	e.memory.Complete(known, e.series, gpus, e.gateway())
	return known
}

// Explain returns why an endpoint is as it is; false without one of this name. It is safe for concurrent use.
func (f *Fleet) Explain(name string) (*explain.Report, bool) {
	report, _ := f.explain(name)
	return report, report != nil
}

// explain returns that with the evidence that it follows from; nil without an endpoint of this name.
func (f *Fleet) explain(name string) (*explain.Report, *explain.Evidence) {
	e := f.endpoint(name)
	if e == nil {
		return nil, nil
	}
	status, c := e.condition()
	now := time.Now()
	if s := status.Suspect; s != nil {
		c = suspected(s)
	}
	found := f.causes.Load()
	if now.Sub(found.at).Abs() > causesAge {
		found = f.findCauses(now)
	}
	known := e.evidence(c, now, f.GPUs())
	known.Common = found.shared[name]
	findings := explain.Explain(known)
	if s := status.Suspect; s != nil {
		findings[0].Evidence = append([]string{"this may be chance so far: " + s.String()}, findings[0].Evidence...)
	}
	return &explain.Report{
		At: stats.UnixSeconds(now), Endpoint: name, State: string(status.State), Since: stats.UnixSeconds(status.Since), Findings: findings,
	}, known
}

// findCauses finds the causes of all endpoints that are not up, and what they have in common.
func (f *Fleet) findCauses(now time.Time) *causes {
	found := f.compare(now, false)
	f.causes.Store(found)
	return found
}

// compare finds the causes of all endpoints that are not up or, with suspects, may soon be that, and what they have in common.
func (f *Fleet) compare(now time.Time, suspects bool) *causes {
	gpus := f.GPUs()
	var peers []explain.Peer
	found := &causes{at: now, top: map[string]explain.Cause{}, alone: map[string]explain.Cause{}}
	all := f.active.Load().endpoints
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e := all[name]
		s, c := e.condition()
		if suspects && s.Suspect != nil {
			c = suspected(s.Suspect)
		}
		p := explain.Peer{Endpoint: name, Cause: explain.Healthy, Since: c.Since, Well: e.memory.LastWell(), Factors: factorsOf(e.cfg)}
		switch c.State {
		case health.Up:
		case health.Asleep:
			p.Cause = ""
		default:
			p.Cause = explain.Explain(e.evidence(c, now, gpus))[0].Cause
			found.alone[name] = p.Cause
			if c.State != health.Waiting || p.Cause != explain.Unknown {
				found.top[name] = p.Cause
			}
			if c.State == health.Waiting || c.State == health.Stale && p.Well.IsZero() {
				p.Cause = "" // never probed: it does not fail
			}
			if suspects && p.Cause == explain.Unknown {
				p.Cause = explain.Cause(c.State) // what several are at once may have one cause, whichever it is
			}
		}
		peers = append(peers, p)
	}
	found.shared = explain.InCommon(peers)
	for name := range found.shared {
		found.top[name] = explain.SharedCause
	}
	return found
}

// cause returns the likeliest cause of what ails an endpoint, as found last or, for a newer state, now; "" while it is up.
func (f *Fleet) cause(e *endpoint) explain.Cause {
	_, c := e.condition()
	if c.State == health.Up || c.State == health.Asleep {
		return ""
	}
	cause := f.causes.Load().top[e.cfg.Name]
	if cause == "" && c.State != health.Waiting {
		cause = f.findCauses(time.Now()).top[e.cfg.Name]
	}
	return cause
}

// WatchCauses finds causes every few seconds until ctx ends, and shows them on the status page.
func (f *Fleet) WatchCauses(ctx context.Context) error {
	for tick := time.Tick(causesAge); ; {
		select {
		case <-tick:
			found := f.findCauses(time.Now())
			f.setScopes()
			gpus := f.GPUs()
			for name, e := range f.active.Load().endpoints {
				e.page.SetCause(found.top[name])
				for _, change := range e.memory.ClockChanges(gpus) {
					e.page.AddEvent(change)
				}
			}
			f.record(found)
		case <-ctx.Done():
			return nil
		}
	}
}

// factorsOf returns what an endpoint may have in common with others.
func factorsOf(e *config.Endpoint) []explain.Factor {
	host := e.URL.Hostname()
	all := []explain.Factor{{Kind: "host", Value: host}}
	switch {
	case e.Gateway != "":
		all = append(all, explain.Factor{Kind: "gateway", Value: e.Gateway})
	case e.URL.Host != host: // what listens on a port may be several endpoints
		all = append(all, explain.Factor{Kind: "host", Value: e.URL.Host})
	}
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
			all = append(all, explain.Factor{Kind: "domain", Value: domain})
		}
	}
	if a := e.HTTP.Authorization; a != nil && a.CredentialsFile != "" {
		all = append(all, explain.Factor{Kind: "key", Value: a.CredentialsFile})
	}
	return all
}

// setScopes completes the incidents that have begun to page with what their endpoints share with others. It is used by one goroutine.
func (f *Fleet) setScopes() {
	var young []*endpoint
	open := map[string]bool{} // the scopes of incidents that page
	for _, e := range f.active.Load().endpoints {
		switch p := e.health.Status().Paging; {
		case p == nil:
		case p.Scope == "":
			young = append(young, e)
		default:
			open[p.Scope] = true
		}
	}
	if len(young) == 0 {
		return
	}
	now := f.compare(time.Now(), true) // the first of several that fail is certain when others look like it
	for _, e := range young {
		e.health.SetScope(e.scope(open, now))
	}
}

// scope returns what an endpoint whose incident begins to page shares with others: with those that page already, or else with those
// that fail now. That is one of explain.Kinds with its value, explain.Everything, or the endpoint alone.
func (e *endpoint) scope(open map[string]bool, now *causes) string {
	name := e.cfg.Name
	factors := factorsOf(e.cfg)
	slices.SortStableFunc(factors, func(a, b explain.Factor) int {
		return slices.Index(explain.Kinds(), a.Kind) - slices.Index(explain.Kinds(), b.Kind)
	})
	for _, factor := range factors {
		if scope := factor.String(); open[scope] && factor.Explains(now.alone[name]) {
			return scope
		}
	}
	if s := now.shared[name]; s != nil {
		return s.Factor.String()
	}
	return "endpoint " + name
}

// ExplainOnce probes a target so many times, reads the pages of its servers meanwhile, as RunLoad does, and returns what
// that shows. What is usual there it cannot know.
func ExplainOnce(ctx context.Context, t Target, engines map[string]*config.Mapping, times int) (*explain.Report, error) {
	dialer := prober.NewDialer()
	defer dialer.Close()
	p, err := t.NewProber(dialer)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	pages, err := network{}.readerWith(engines, t.Endpoint)
	if err != nil {
		return nil, err
	}
	defer pages.Close()
	began := time.Now()
	m := &once{memory: explain.NewMemory(t.Endpoint), facts: new(workload.Facts)}
	workload.SetFact(m.facts, page.Known{Model: t.Endpoint.Model})
	for range times {
		stop := m.watch(ctx, pages)
		results := p.Run(ctx, 0)
		stop()
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("explain %s: %w", t.Endpoint.URL, err)
		}
		m.take(results)
	}
	e := &explain.Evidence{At: time.Now(), Condition: explain.Condition{State: explain.StateOfProbes(m.series, began), Since: began}, Engine: knownOf(m.facts).Engine, Facts: explain.FactsOf(m.facts.Latest())}
	m.memory.Complete(e, m.series, nil, nil)
	return &explain.Report{At: stats.UnixSeconds(e.At), Endpoint: e.Endpoint, State: string(e.State), Findings: explain.Explain(e)}, nil
}

// once is what is known of an endpoint that is asked a few times.
type once struct {
	memory *explain.Memory
	facts  *workload.Facts
	series []*explain.Series
}

// watch reads pages every second until stop is called, and once then.
func (o *once) watch(ctx context.Context, pages Reader) (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick, last := time.Tick(time.Second), false; !last; {
			select {
			case <-tick:
			case <-ended:
				last = true
			}
			o.memory.Read(present(pages.Scrape(ctx, knownOf(o.facts))))
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}

func (o *once) take(all Results) {
	for _, rung := range all {
		if rung.Skip != nil {
			o.memory.Skip(rung.Skip.Reason, rung.Skip.Text, time.Now())
		}
		for _, r := range rung.Results {
			health.Learn(o.facts, r)
			if r.Concurrency > 0 {
				continue
			}
			title := titleOf(variantOf(r).id(rung.Target.id()), rung.Module)
			i := slices.IndexFunc(o.series, func(s *explain.Series) bool { return s.Title == title })
			if i < 0 {
				i = len(o.series)
				o.series = append(o.series, &explain.Series{Title: title, Objectives: rung.objectives(), Log: new(series.Log)})
			}
			seen := observe(rung.Target, r, false, false)
			o.series[i].Log.Add(&seen.Observation)
			o.memory.Observe(&seen.Observation)
		}
	}
}

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

package fleet

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/recorder"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// record has the recordings follow the states of all endpoints. It is used by one goroutine.
func (f *Fleet) record(found *causes) {
	if f.Recorder == nil {
		return
	}
	if self, ok := f.lag.take(found.at); ok {
		f.Recorder.AddSelf(recorder.Entry{At: found.at, Self: self})
	}
	for name, e := range f.active.Load().endpoints {
		e.track.Tick(e.health.Status(), found.top[name], recorded{e})
	}
}

// record takes a probe, which its series has by now, while an incident is suspected.
func (e *endpoint) record(r *result.Result, of *variantSeries) {
	if e.track == nil {
		return
	}
	e.fleet.lag.observe(r)
	if !e.track.TakesProbes() {
		return
	}
	if k, ok := of.log.Last(); ok && k.Start().Equal(r.Start) {
		e.track.Observe(e.recordedProbe(of.kept.Title, k))
	}
}

func (e *endpoint) recordedProbe(title string, k series.Kept) recorder.Probe {
	module, _, _ := strings.Cut(title, " ")
	return recorder.Probe{Kept: k, Series: title, Target: result.Target{Endpoint: e.cfg.Name, URL: e.cfg.URL.String(), Module: module, Price: e.cfg.Price}}
}

// recorded is an endpoint as a recorder.Source.
type recorded struct{ *endpoint }

// Config implements recorder.Source.
func (e recorded) Config() string {
	modules := map[string]*config.Module{}
	for _, t := range e.targets {
		modules[t.Name] = t.Module
	}
	text, err := yaml.Marshal(map[string]any{"endpoints": []*config.Endpoint{e.cfg}, "modules": modules})
	if err != nil {
		return fmt.Sprintf("# %v\n", err)
	}
	return string(text)
}

// Probes implements recorder.Source.
func (e recorded) Probes(from time.Time) (whole []recorder.Probe, points []recorder.Entry) {
	for _, s := range e.series {
		for _, k := range s.Log.Kept() {
			if !k.Start().Before(from) {
				whole = append(whole, e.recordedProbe(s.Title, k))
			}
		}
		for _, p := range s.Log.Points(series.MaxPoints) {
			if !p.At.Before(from) {
				points = append(points, recorder.Entry{At: p.At, Point: &recorder.Point{
					Series: s.Title, Outcome: p.Outcome, TTFT: result.Seconds(p.TTFT), TPOT: result.Seconds(p.TPOT), Late: p.Late,
				}})
			}
		}
	}
	return whole, points
}

// Samples implements recorder.Source.
func (e recorded) Samples() []recorder.Entry {
	now := time.Now()
	all := append(pagesOf(e.page.Servers(), recorder.RoleServer), pagesOf(e.gateway().Latest(), recorder.RoleGateway)...)
	for _, d := range explain.GPUsOf(e.cfg, e.fleet.GPUs()) {
		values := map[string]float64{}
		for _, r := range d.Readings {
			name := string(r.Kind)
			if r.Label != "" {
				name += ":" + strings.ReplaceAll(r.Label, " ", "_")
			}
			values[name] = r.Value
		}
		for _, x := range d.XIDs {
			values[fmt.Sprintf("xid_errors_total:%d", x.Number)] = float64(x.Count)
		}
		all = append(all, recorder.Entry{At: now, GPU: &recorder.GPU{UUID: d.UUID, Up: d.Up, Values: recorder.ValuesOf(values)}})
	}
	return all
}

func pagesOf(statuses []page.Status, role string) (all []recorder.Entry) {
	for i := range statuses {
		st := &statuses[i]
		p := &recorder.Page{Source: st.Server, Role: role, State: st.State, Reason: st.Reason}
		if s := st.Snapshot; s != nil {
			p.Engine, p.Values = s.Engine, recorder.ValuesOf(valuesOf(s))
		}
		all = append(all, recorder.Entry{At: st.At, Page: p})
	}
	return all
}

// valuesOf returns what a page shows by the names of recorder.Page.
func valuesOf(s *page.Snapshot) map[string]float64 {
	all := map[string]float64{}
	for q, v := range s.Values {
		all[q.MetricName()] = v
	}
	for q, h := range s.Histograms {
		all[q.MetricName()+"_sum"], all[q.MetricName()+"_count"] = h.Sum, float64(h.Count)
	}
	for finish, n := range s.Requests {
		all["requests_total:"+finish] = n
	}
	if ratio := s.HitRatio(); ratio != nil {
		all["prefix_cache_hit_ratio"] = *ratio
	}
	return all
}

// Explain implements recorder.Source.
func (e recorded) Explain() []recorder.Entry {
	report, known := e.fleet.explain(e.cfg.Name)
	if report == nil {
		return nil
	}
	all := []recorder.Entry{{At: known.At, Report: report}}
	if text, err := explain.Encode(known); err == nil {
		all = append(all, recorder.Entry{At: known.At, Evidence: text})
	}
	return all
}

// lag is that of the exporter itself since the latest sample. It is safe for concurrent use.
type lag struct {
	mu sync.Mutex
	recorder.Self
	at time.Time
}

func (l *lag) observe(r *result.Result) {
	read := time.Duration(0)
	for i := range r.Events {
		read = max(read, r.Events[i].ReadLag)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Probes++
	if r.Imprecise {
		l.Imprecise++
	}
	l.ScheduleLag, l.ReadLag = max(l.ScheduleLag, r.StartLag.Seconds()), max(l.ReadLag, read.Seconds())
}

// take returns a sample and begins the next one; false within a minute of the one before.
func (l *lag) take(now time.Time) (*recorder.Self, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.at) < time.Minute {
		return nil, false
	}
	sample := l.Self
	l.Self, l.at = recorder.Self{}, now
	return &sample, true
}

package fleet

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
	"github.com/inference-exporter/inference_exporter/prober"
)

// Observation is a result of a probe, how it came about, and how it is judged.
type Observation struct {
	series.Observation
	Target Target // of the task: a rung
}

// observe judges a result of a target: once, here.
func observe(t Target, r *result.Result, disturbed, confirmation bool) *Observation {
	return &Observation{series.Observe(r, t.objectives(), disturbed, confirmation), t}
}

// Observer takes the results of tasks, one after the other for each task. It is safe for concurrent use.
type Observer interface{ Observe(o *Observation) }

// findings publishes what the results of one endpoint and module, of all its tasks, show. It is safe for concurrent use.
type findings struct {
	Target
	endpoint *endpoint
	asked    uint64 // a hash of what is asked
	tracker  *workload.Tracker
	series   *collector.FindingsSeries

	mu   sync.Mutex
	last *workload.Findings
}

// newFindings returns the findings of a target on both pages, given a hash of what is asked.
func newFindings(e *endpoint, t Target, asked uint64) *findings {
	return &findings{Target: t, endpoint: e, asked: asked, tracker: t.Tracker(e.traffic.of()), series: e.metrics.OpenFindings(t.Name)}
}

// logger is made for each line: most targets have none.
func (t Target) logger(l *slog.Logger) *slog.Logger {
	return l.With("endpoint", t.Endpoint.Name, "module", t.Name)
}

// latest returns what the results show by now; nil before the first run.
func (f *findings) latest() *workload.Findings {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (f *findings) observe(results []*result.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.show(f.tracker.Observe(results))
}

// take takes what a run that is no probe came to.
func (f *findings) take(model string, run any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.show(f.tracker.Take(model, run))
}

// show publishes what the results show by now; f.mu is held, or f is new.
func (f *findings) show(latest *workload.Findings) {
	f.series.Set(latest)
	f.endpoint.page.SetFindings(f.Name, latest)
	if latest != nil {
		f.log(latest)
	}
	f.last = latest
}

func (f *findings) log(latest *workload.Findings) {
	same := f.last != nil && f.last.Model == latest.Model
	for i, found := range latest.All {
		now, ok := found.(workload.News)
		if !ok {
			continue
		}
		var before workload.Finding
		if same {
			before = f.last.All[i]
		}
		if lines := now.News(before, latest.Model); len(lines) > 0 {
			note(f.endpoint.page, f.logger(f.endpoint.fleet.Logger), f.Name, lines)
		}
	}
}

// note logs and notes what is new, where it has a text, by the answers to a module; "" is none.
func note(p *status.Endpoint, logger *slog.Logger, module string, lines []workload.Line) {
	for _, line := range lines {
		level := slog.LevelInfo
		if line.Warn {
			level = slog.LevelWarn
		}
		if line.Message != "" {
			logger.Log(context.Background(), level, line.Message, line.Args...)
		}
		p.Note(module, line.Note)
	}
}

// watchModel goes on with what is known of the models that answer.
func (e *endpoint) watchModel(past *past, now time.Time) {
	e.models.Accept(append([]string{e.cfg.Model}, e.cfg.AcceptModels...)...)
	if past.models == nil {
		return
	}
	if err := e.models.Restore(past.models, now); err != nil {
		e.fleet.Logger.Warn("saved models are unusable; starting over", "endpoint", e.cfg.Name, "err", err)
	}
}

// changes returns in what other models than usual answer by now: by their names, and by the scores of the module that saw it first.
func (e *endpoint) changes(drift.Changes) drift.Changes {
	all := drift.Changes{Names: e.models.Change()}
	for _, n := range e.findings {
		found, ok := workload.In[*drift.Finding](n.latest())
		if ok && found.Scores != nil && (all.Scores == nil || found.Scores.Since.Before(all.Scores.Since)) {
			all.Scores = found.Scores
		}
	}
	return all
}

// traffic has modules ask what the servers of their endpoint count of its users. It is safe for concurrent use.
type traffic struct {
	users  *load.Traffic
	askers []asker // set before the first reading
}

type asker interface{ SetMix(m *load.Mix) }

// newTraffic returns the traffic of the endpoint of targets; nil where no module asks for it.
func newTraffic(targets []Target) *traffic {
	for _, t := range targets {
		if t.Traffic != nil {
			return &traffic{users: load.NewTraffic(time.Now)}
		}
	}
	return nil
}

// follow has a module ask what users ask, if it is to.
func (t *traffic) follow(of Target, r Runner) {
	p, ok := r.(*prober.Prober)
	if !ok || of.Traffic == nil {
		return
	}
	if a, ok := p.Source().(asker); ok {
		t.askers = append(t.askers, a)
	}
}

// of returns what users ask; nil where no module asks for it.
func (t *traffic) of() *load.Traffic {
	if t == nil {
		return nil
	}
	return t.users
}

// spent takes probes off, which are no requests of users.
func (t *traffic) spent(results ...*result.Result) {
	if t == nil {
		return
	}
	for _, r := range results {
		t.users.Probed(r)
	}
}

// read takes in the pages of the servers, and hands on what users ask by now.
func (t *traffic) read(statuses []page.Status) {
	if t == nil {
		return
	}
	known := map[string]bool{}
	for i := range statuses {
		st := &statuses[i]
		known[st.Server] = true
		if s := st.Snapshot; s != nil && s.InputLengths != nil && s.OutputLengths != nil {
			t.users.Read(st.Server, cumulative(s.InputLengths), cumulative(s.OutputLengths))
		}
	}
	t.users.Keep(func(server string) bool { return known[server] })
	for _, a := range t.askers {
		a.SetMix(t.users.Mix())
	}
}

func cumulative(h *page.Histogram) load.Cumulative {
	return load.Cumulative{Bounds: h.Bounds, Counts: h.Counts, Count: h.Count}
}

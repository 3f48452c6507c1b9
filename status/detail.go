package status

import (
	"cmp"
	"slices"

	"github.com/inference-exporter/inference_exporter/engine"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Version returns the version of the latest change of an endpoint; false without
// an endpoint of this name.
func (b *Board) Version(name string) (uint64, bool) {
	e := b.endpoint(name)
	if e == nil {
		return 0, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notice(b.now())
	return e.version, true
}

// Detail returns the page of an endpoint; false without an endpoint of this
// name.
func (b *Board) Detail(name string) (*Detail, bool) {
	e := b.endpoint(name)
	if e == nil {
		return nil, false
	}
	now := b.now()
	e.mu.Lock()
	e.notice(now)
	d := &Detail{Row: *e.currentRow(now), At: unixSeconds(now), Version: b.version.Load()}
	changes, servers, target := slices.Clone(e.changes), e.servers, e.target()
	views := make([]view, len(e.series))
	for i, p := range e.series {
		views[i] = p.view()
	}
	e.mu.Unlock() // a page takes longer to make than a probe should wait

	slices.Reverse(changes)
	slices.SortStableFunc(changes, func(x, y Change) int { return cmp.Compare(y.At, x.At) })
	d.Changes = changes
	d.Series = make([]*Series, len(views))
	for i := range views {
		d.Series[i] = views[i].page(target)
	}
	d.Pages = pagesOf(servers)
	return d, true
}

// target is the endpoint in the words of the documents of its probes.
func (e *endpoint) target() result.Target {
	return result.Target{Endpoint: e.name, URL: e.url, Price: e.cfg.Price}
}

// view is what a series holds at a moment.
type view struct {
	id      result.SeriesID
	options SeriesOptions
	history history
	kept    []*keptProbe
}

func (p *Probes) view() view {
	v := view{p.id, p.options, p.history, slices.Clone(p.kept)}
	h := &v.history
	h.at, h.ttft, h.tpot, h.ended = slices.Clone(h.at), slices.Clone(h.ttft), slices.Clone(h.tpot), slices.Clone(h.ended)
	return v
}

// page returns the series as the page shows it.
func (v *view) page(t result.Target) *Series {
	t.Module = v.id.Module
	s := &Series{
		Module: v.id.Module, Prefix: v.id.Prefix,
		InputTokens: v.id.InputTokens, OutputTokens: v.id.OutputTokens, Concurrency: v.id.Concurrency,
		Interval: v.options.Pace.Interval, SLO: v.options.SLO,
		History: v.history.columns(), Probes: make([]*result.Document, 0, len(v.kept)),
	}
	if v.options.Window != nil {
		s.Window = v.options.Window()
	}
	for _, k := range slices.Backward(v.kept) {
		s.Probes = append(s.Probes, k.document(t))
	}
	return s
}

// pagesOf returns the readings of the servers' own pages.
func pagesOf(statuses []engine.Status) []*Server {
	var all []*Server
	for i := range statuses {
		st := &statuses[i]
		s := &Server{Server: st.Server, URL: st.URL, At: unixSeconds(st.At), State: st.State, Reason: st.Reason}
		if st.Err != nil {
			s.Error = harmless(st.Err.Error())
		}
		if snap := st.Snapshot; snap != nil {
			s.Engine, s.Hits = snap.Engine, hitsOf(snap)
			s.Values = make(map[string]float64, len(snap.Values))
			for q, v := range snap.Values {
				s.Values[string(q)] = v
			}
		}
		all = append(all, s)
	}
	return all
}

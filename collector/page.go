package collector

import (
	"io"
	"slices"
	"time"
)

// probesPage is what a page of Probes shows, in its order. The slices are never
// changed once made.
type probesPage struct {
	infos    []*labelBlock // of endpoints
	runsOn   []labelled[hardwareValues]
	spending []labelled[spending]
	series   []*Series
	findings []*FindingsSeries // those that have findings
}

// write walks over all families.
func (p *Probes) write(w io.Writer, e encoder) error {
	page := p.page()
	if err := p.writeInfos(w, e, page.infos); err != nil {
		return err
	}
	if err := writeSeries(w, e, p.hardware, p.addLocal(page.runsOn)); err != nil {
		return err
	}
	if err := writeSeries(w, e, p.spending, page.spending); err != nil {
		return err
	}
	for _, f := range p.families {
		e.begin(f.family)
		for _, s := range page.series {
			s.encode(e, f)
			if err := e.flush(w); err != nil {
				return err
			}
		}
		if err := e.end(w); err != nil {
			return err
		}
	}
	return writeSeries(w, e, p.found, latest(page.findings))
}

// writeInfos writes the family of the endpoints' descriptions.
func (p *Probes) writeInfos(w io.Writer, e encoder, infos []*labelBlock) error {
	e.begin(p.info)
	for _, block := range infos {
		e.labels(block, time.Time{})
		e.gauge(0, 1)
		if err := e.flush(w); err != nil {
			return err
		}
	}
	return e.end(w)
}

// page returns what a page shows.
func (p *Probes) page() probesPage {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stale.Swap(false) {
		p.order()
	}
	return p.ordered
}

// order puts everything in the order of its labels.
func (p *Probes) order() {
	p.ordered = probesPage{}
	o := &p.ordered
	for _, e := range p.endpoints {
		o.infos = append(o.infos, e.block)
		if e.info.Hardware != nil {
			o.runsOn = append(o.runsOn, e.hardware)
		}
		if e.spending != nil {
			o.spending = append(o.spending, *e.spending)
		}
	}
	slices.SortFunc(o.infos, compareLabels)
	sortLabelled(o.runsOn)
	sortLabelled(o.spending)
	series := make([]labelled[*Series], 0, len(p.series))
	for _, s := range p.series {
		s.mu.Lock()
		series = append(series, labelled[*Series]{s.block, s})
		s.mu.Unlock()
	}
	o.series = sortLabelled(series)
	var findings []labelled[*FindingsSeries]
	for _, s := range p.findings {
		if v := s.current.Load(); v != nil {
			findings = append(findings, labelled[*FindingsSeries]{v.block, s})
		}
	}
	o.findings = sortLabelled(findings)
}

// sortLabelled sorts by labels, and returns the values in that order.
func sortLabelled[V any](all []labelled[V]) []V {
	slices.SortFunc(all, func(a, b labelled[V]) int { return compareLabels(a.block, b.block) })
	values := make([]V, len(all))
	for i := range all {
		values[i] = all[i].value
	}
	return values
}

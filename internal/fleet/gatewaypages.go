package fleet

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

// gatewayPages is what the pages of a gateway showed last, and usually show.
type gatewayPages struct {
	statuses []page.Status // of the latest reading of each page; nil before the first
	uses     page.GatewayUses
	levels   readings // of which levelUp is the backends that are ready
	wasRead  bool     // a page was
}

// add takes in a reading of all pages.
func (p *gatewayPages) add(statuses []page.Status) {
	p.statuses = statuses
	now := page.NewTotal(statuses)
	if now == nil {
		return
	}
	before := p.uses.Latest()
	p.wasRead = true
	p.uses.Add(now)
	next := newReading(now.At)
	for q, i := range map[config.Quantity]int{config.RequestsWaiting: levelWaiting, config.BackendsReady: levelUp} {
		if v, ok := now.Values[q]; ok {
			next.values[i] = float32(v)
		}
	}
	if now.Follows(before) {
		next.set(levelQueue, now.Mean(before, config.QueueTime))
	}
	p.levels.latest = stats.AppendLatest(p.levels.latest, next, latestReadings)
	p.levels.sample(next)
}

// usuallyReady returns how many backends were ready in most readings of the last day; nil
// where that is not known.
func (p *gatewayPages) usuallyReady() *float64 {
	if len(p.levels.latest) == 0 {
		return nil
	}
	usual := p.levels.level(levelUp, p.levels.latest[len(p.levels.latest)-1].at).Usual
	if usual == nil {
		return nil
	}
	return new(math.Round(*usual))
}

// evidence returns what the pages show now, and usually showed before an instant; nil
// before the first reading.
func (p *gatewayPages) evidence(name string, before time.Time) *explain.GatewayPages {
	if p.statuses == nil {
		return nil
	}
	e := &explain.GatewayPages{Name: name, Known: len(p.statuses), WasRead: p.wasRead}
	e.Up, e.Lost = lostServers(p.statuses)
	if e.Up == 0 {
		return e
	}
	latest := p.uses.Latest()
	if v, ok := latest.Values[config.Backends]; ok {
		e.Backends = &v
	}
	for i, into := range map[int]**explain.Level{levelUp: &e.Ready, levelWaiting: &e.Waiting, levelQueue: &e.Queue} {
		if l := p.levels.level(i, before); l.Now != nil {
			*into = &l
		}
	}
	for _, backend := range slices.Sorted(maps.Keys(latest.Backends)) {
		if ready, ok := latest.Backends[backend].Values[config.BackendsReady]; ok && ready == 0 {
			e.NotReady = append(e.NotReady, backend)
		}
		if use := p.uses.Backend(backend); use.IsFailing() {
			e.Failing = append(e.Failing, fmt.Sprintf("backend %s of the gateway %s: %.0f of %.0f requests failed in the last %s",
				backend, name, *use.Failed, *use.Requests, p.uses.Span().Round(time.Second)))
		}
	}
	return e
}

// evidence returns what the pages of the gateway of an endpoint show; nil is none.
func (g *gateway) evidence(before time.Time) *explain.GatewayPages {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pages.evidence(g.name, before)
}

// show brings the status page up to date.
func (g *gateway) show() {
	g.mu.Lock()
	page := status.NewGateway(g.name, g.cfg.Software, g.pages.statuses, &g.pages.uses, g.pages.usuallyReady())
	g.mu.Unlock()
	g.board.SetGateway(page)
}

package fleet

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

// newGateways returns the gateways of a configuration, as newNamed does.
func (f *Fleet) newGateways(cfg *config.Config) (next named, err error) {
	if f.Scraping == nil || len(cfg.Gateways) == 0 {
		return named{}, nil
	}
	mappings := f.gateways.mappings
	if mappings == nil || !reflect.DeepEqual(f.gatewayMappings, cfg.GatewayMappings) {
		if mappings, err = page.NewGatewayMappings(cfg.GatewayMappings); err != nil {
			return named{}, err
		}
	}
	return f.newNamed("gateway", f.gateways, mappings, cfg.Gateways)
}

// useGateways makes these the gateways that are read.
func (f *Fleet) useGateways(next named) {
	f.gateways.replace(next, func(name string) {
		f.Gateways.Remove(name)
		f.Board.RemoveGateway(name)
	}, func(name string, s *source) {
		g, log := &gateway{name: name, software: s.cfg.Software}, pageLog{logger: f.Logger.With("gateway", name), section: "gateway_mappings"}
		s.gateway = g
		s.take = func(_ page.Known, statuses []page.Status) {
			there := present(statuses)
			g.add(there)
			f.Gateways.Set(name, g.software, there)
			f.Board.SetGateway(g.shown())
			log.all(statuses)
		}
		f.Board.SetGateway(g.shown())
	})
}

// gateway is what the pages of a gateway showed. It is safe for concurrent use.
type gateway struct {
	name, software string

	mu    sync.Mutex
	pages gatewayPages
}

// add takes in a reading of all pages.
func (g *gateway) add(statuses []page.Status) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pages.add(statuses)
}

// latest returns what became of the latest reading of each page; nil before the first. It
// is safe for concurrent use.
func (g *gateway) latest() []page.Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pages.statuses
}

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

// shown returns the gateway as the status page shows it.
func (g *gateway) shown() *status.Gateway {
	g.mu.Lock()
	defer g.mu.Unlock()
	return status.NewGateway(g.name, g.software, g.pages.statuses, &g.pages.uses, g.pages.usuallyReady())
}

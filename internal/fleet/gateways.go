package fleet

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

// gateways are the gateways of a configuration, whose pages are read as those of
// servers are.
type gateways struct {
	own      map[string]*config.GatewayMapping // that mappings are of
	mappings *page.Mappings
	byName   map[string]*gateway
}

// newGateways returns the gateways of a configuration, with those of before in place
// of equal ones, and the new ones apart. It touches nothing else; an error leaves
// nothing to close.
func (f *Fleet) newGateways(cfg *config.Config) (next *gateways, fresh []*gateway, err error) {
	before := f.gateways
	next = &gateways{own: cfg.GatewayMappings, byName: map[string]*gateway{}}
	if f.Scraping == nil || len(cfg.Gateways) == 0 {
		return next, nil, nil
	}
	next.mappings = before.mappings
	if next.mappings == nil || !reflect.DeepEqual(before.own, next.own) {
		if next.mappings, err = page.NewGatewayMappings(cfg.GatewayMappings); err != nil {
			return nil, nil, err
		}
	}
	for name, g := range cfg.Gateways {
		if old := before.byName[name]; old != nil && before.mappings == next.mappings && reflect.DeepEqual(old.cfg, g) {
			next.byName[name] = old
			continue
		}
		reader, err := f.Network.Reader(g.Endpoint(name), next.mappings)
		if err != nil {
			closeGateways(fresh)
			return nil, nil, fmt.Errorf("gateway %q: %w", name, err)
		}
		one := &gateway{
			lifecycle: newLifecycle(reader.Close), name: name, cfg: g, reader: reader, shown: f.Gateways, board: f.Board,
			log: serverLog{logger: f.Logger.With("gateway", name), section: "gateway_mappings"},
		}
		next.byName[name] = one
		fresh = append(fresh, one)
	}
	return next, fresh, nil
}

func closeGateways(all []*gateway) {
	for _, g := range all {
		g.close()
	}
}

// useGateways makes gateways those that are read, and closes the ones that are gone.
func (f *Fleet) useGateways(next *gateways) {
	for name, g := range f.gateways.byName {
		if next.byName[name] == g {
			continue
		}
		g.close()
		if next.byName[name] == nil {
			f.Gateways.Remove(name)
			f.Board.RemoveGateway(name)
		}
	}
	for name, g := range next.byName {
		if f.gateways.byName[name] != g {
			g.show()
		}
	}
	f.gateways = next
}

// jobs returns the readings of the gateways for the scheduler.
func (g *gateways) jobs() []schedule.Job {
	var jobs []schedule.Job
	for name, one := range g.byName {
		jobs = append(jobs, schedule.Job{
			Key: "\x00gateway\x00" + name, Host: one.cfg.Endpoint(name).URL.Host, Interval: time.Duration(one.cfg.Interval), Run: one.read,
		})
	}
	return jobs
}

// gateway reads the pages of one gateway whenever the scheduler says so.
type gateway struct {
	lifecycle
	name   string
	cfg    *config.MetricsPages
	reader Reader
	shown  *collector.Gateways
	board  *status.Board
	log    serverLog

	mu    sync.Mutex
	pages gatewayPages
}

// read reads all pages once and publishes their values.
func (g *gateway) read(ctx context.Context, _ schedule.Run) schedule.Report {
	var statuses []page.Status
	g.run(ctx, func(ctx context.Context) { statuses = g.reader.Scrape(ctx, page.Known{}) }, func() {
		if ctx.Err() != nil || hasShortage(statuses) {
			return
		}
		there := present(statuses)
		g.mu.Lock()
		g.pages.add(there)
		g.mu.Unlock()
		g.shown.Set(g.name, g.cfg.Software, there)
		g.show()
		g.log.all(statuses)
	})
	return schedule.Report{}
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

// show brings the status page up to date.
func (g *gateway) show() {
	g.mu.Lock()
	page := status.NewGateway(g.name, g.cfg.Software, g.pages.statuses, &g.pages.uses, g.pages.usuallyReady())
	g.mu.Unlock()
	g.board.SetGateway(page)
}

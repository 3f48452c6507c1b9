package fleet

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
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

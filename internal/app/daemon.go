package app

import (
	"context"
	"net"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/version"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/sync/errgroup"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/discovery"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/schedule"
	"github.com/inference-exporter/inference_exporter/status"
	"github.com/inference-exporter/inference_exporter/web"
)

// scrapesInFlight is how many endpoints have the pages of their servers read at
// once: enough that those whose servers hang do not hold up the others.
const scrapesInFlight = 1000

// discoveryThrottle is how long discovered changes are collected before they are
// taken up.
const discoveryThrottle = time.Second

// daemonOptions are what the flags say.
type daemonOptions struct {
	senses      senses
	shard       shard
	metricsPath string
	hosts       []string // names by which a browser may ask
	lifecycle   bool     // a request may reload the configuration
	file        string   // of the configuration, for people; "" is none
	// load returns the configuration anew.
	load    func() (*config.Config, error)
	hangups <-chan os.Signal // each asks for a reload; nil is none
}

// daemon is the running program: discovery, schedule, fleet and web server.
type daemon struct {
	daemonOptions
	env       environment
	started   time.Time
	discovery *discovery.Finder
	probing   *schedule.Scheduler // nil where endpoints are not probed
	scraping  *schedule.Scheduler // nil where servers' pages are not read
	hardware  *hardware           // nil where GPUs are not read
	fleet     *fleet
	self      *collector.Self
	board     *status.Board
	budgets   *budgets
	dialer    *prober.Dialer
	onDemand  *onDemand
	traces    *traces
	web       *web.Server
	force     force
	asked     chan chan error // for a reload
}

// newDaemon puts the program together, with cfg in force from the moment it runs.
func newDaemon(cfg *config.Config, env environment, o daemonOptions) (*daemon, error) {
	registry := prometheus.NewRegistry()
	d := &daemon{
		daemonOptions: o, env: env, started: time.Now(),
		self: collector.NewSelf(registry), board: status.NewBoard(time.Now), budgets: newBudgets(cfg.Global.Budget),
		traces: &traces{logger: env.logger}, asked: make(chan chan error),
	}
	d.force.set(cfg, d.started)
	probes, servers := collector.NewProbes(time.Now), collector.NewServers()
	d.discovery = discovery.New(discovery.Options{
		Registerer: registry, Logger: env.logger, UserAgent: userAgent(), Throttle: discoveryThrottle,
	})
	if o.senses.probe {
		host, _ := os.Hostname() // "" is as good: replicas have hosts of their own
		d.probing = schedule.New(schedule.Options{Salt: host, Logger: env.logger})
	}
	if o.senses.server {
		d.scraping = schedule.New(schedule.Options{InFlight: scrapesInFlight, Logger: env.logger})
	}
	if o.senses.gpu {
		d.hardware = newHardware(env, o.senses, registry, probes)
	}
	d.self.SetShard(o.shard.index, o.shard.count)
	d.self.WatchBudget(d.budgets.all.Used)
	d.self.WatchDroppedSpans(d.traces.Dropped)
	d.self.WatchDroppedLogLines(env.lostLines)
	d.dialer = prober.NewDialer()
	d.onDemand = newOnDemand(d.dialer, d.budgets)
	var err error
	if d.web, err = d.newWeb(registry, collector.NewExposition(registry, probes, servers)); err == nil {
		d.fleet = newFleet(fleetParts{
			dialer: d.dialer, probing: d.probing, scraping: d.scraping, probes: probes, servers: servers,
			self: d.self, board: d.board, traces: d.traces, budgets: d.budgets, logger: env.logger,
		})
		err = d.enforce(cfg)
	}
	if err != nil {
		_ = d.dialer.Close()
		return nil, unusable{err}
	}
	d.self.Reloaded(true, d.started)
	return d, nil
}

// newWeb returns the web server with all that it shows.
func (d *daemon) newWeb(registry *prometheus.Registry, metrics *collector.Exposition) (*web.Server, error) {
	o := web.Options{
		MetricsPath: d.metricsPath, Hosts: d.hosts, Version: version.Info(),
		Metrics: metrics, Formats: collector.Formats(), Scrapes: d.self, Prober: d.onDemand, Logger: d.env.logger,
		Hangs: d.hangs, Status: d.board, Gatherer: registry, Info: d.info,
		Config: func() ([]byte, error) { return d.force.config().Marshal() },
	}
	if d.hardware != nil {
		o.GPUs = func() *status.GPUPage { return status.GPUs(d.hardware.gpus.Snapshot()) }
	}
	if d.lifecycle {
		o.Reload = d.reload
	}
	return web.New(o)
}

// run runs the parts until ctx ends or one of them fails. It serves on what
// open returns or, when that is nil, on the sockets that the flags name.
func (d *daemon) run(ctx context.Context, open func() ([]net.Listener, error), flags *toolkit.FlagConfig) error {
	defer d.dialer.Close()
	defer d.fleet.close()
	defer d.onDemand.close()
	listeners, err := open()
	if err != nil {
		return err
	}
	defer closeAll(listeners)
	d.env.logger.Info("starting", "version", version.Info())
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range d.parts() {
		group.Go(func() error { return part(ctx) })
	}
	group.Go(func() error { return d.serve(ctx, listeners, flags) })
	if err := group.Wait(); err != nil {
		return err
	}
	d.env.logger.Info("stopped")
	return nil
}

// parts returns what has to run beside the web server.
func (d *daemon) parts() []func(context.Context) error {
	parts := []func(context.Context) error{d.discovery.Run, d.traces.run, d.follow}
	for _, s := range d.schedulers() {
		parts = append(parts, s.Run)
	}
	if d.hardware != nil {
		parts = append(parts, d.hardware.parts()...)
	}
	return parts
}

// schedulers returns those in use.
func (d *daemon) schedulers() []*schedule.Scheduler {
	var used []*schedule.Scheduler
	for _, s := range []*schedule.Scheduler{d.probing, d.scraping} {
		if s != nil {
			used = append(used, s)
		}
	}
	return used
}

// hangs reports whether probes, or readings of pages, make no progress.
func (d *daemon) hangs() bool {
	return slices.ContainsFunc(d.schedulers(), (*schedule.Scheduler).Hangs)
}

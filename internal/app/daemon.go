package app

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/version"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/sync/errgroup"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/discovery"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/otlp"
	"github.com/inference-exporter/inference_exporter/internal/recorder"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/store"
	"github.com/inference-exporter/inference_exporter/internal/web"
	"github.com/inference-exporter/inference_exporter/prober"
)

// scrapesInFlight is how many endpoints have the pages of their servers read at
// once: enough that those whose servers hang do not hold up the others.
const scrapesInFlight = 1000

// discoveryThrottle is how long discovered changes are collected before they are applied.
const discoveryThrottle = time.Second

// saveTimeout is how long after the program was asked to stop its state may be saved: it ends before exitTimeout.
const saveTimeout = exitTimeout - 300*time.Millisecond

type daemonOptions struct {
	collectors  collectors
	shard       shard
	metricsPath string
	hosts       []string // names by which a browser may ask
	lifecycle   bool     // a request may reload the configuration
	mcp         bool     // programs may ask by the Model Context Protocol
	profiles    bool     // of the process, on pages
	links       web.Links
	file        string // of the configuration, for people; "" is none
	stateDir    string // of what survives a restart; "" is none
	// load reads the configuration again.
	load    func() (*config.Config, error)
	hangups <-chan os.Signal // each asks for a reload; nil is none
	// changed reports whether it would load something else than what was loaded; it is called every autoReload, 0 is never.
	changed    func(loaded *config.Config) bool
	autoReload time.Duration
}

// daemon is the running program: discovery, schedule, fleet and web server.
type daemon struct {
	daemonOptions
	env       environment
	started   time.Time
	active    atomic.Pointer[activeConfig]
	discovery *discovery.Finder
	probing   *schedule.Scheduler   // nil where endpoints are not probed
	scraping  *schedule.Scheduler   // nil where servers' pages are not read
	devices   *schedule.Scheduler   // nil where GPUs are not read
	running   []*schedule.Scheduler // those of them that are there
	hardware  *hardware             // nil where GPUs are not read
	fleet     *fleet.Fleet
	self      *collector.Self
	board     *status.Board
	state     *store.Store // nil where none is kept
	spans     *otlp.Spans
	metrics   *collector.Exposition
	pushes    *otlp.Metrics
	web       *web.Server
	reloads   chan chan error // requests to reload, each with where the error goes
	paced     *bool           // as a small fleet or not; nil is not yet
}

// Observe implements fleet.Observer: it gives the results of probes to what is exported of them, and never waits for a receiver.
func (d *daemon) Observe(o *fleet.Observation) {
	t := otlp.Target{
		Endpoint: o.Target.Endpoint.Name, Module: o.Target.Name, URL: o.Target.Endpoint.URL.URL, MaxTokens: o.Target.MaxOutput(),
	}
	d.spans.Observe(t, o.Result)
	d.pushes.Observe(t, o.Result)
}

// newDaemon puts the program together, with cfg active from the moment it runs.
func newDaemon(cfg *config.Config, env environment, o daemonOptions) (*daemon, error) {
	if env.OwnProcess {
		discovery.LogForeign(env.logger)
	}
	registry := prometheus.NewRegistry()
	d := &daemon{
		daemonOptions: o, env: env, started: time.Now(),
		self: collector.NewSelf(registry), board: status.NewBoard(time.Now),
		spans: otlp.NewSpans(version.Version, env.logger), reloads: make(chan chan error),
	}
	d.active.Store(&activeConfig{Config: cfg, at: d.started})
	probes := collector.NewProbes(time.Now)
	d.discovery = discovery.New(discovery.Options{
		Registerer: registry, Logger: env.logger, Secrets: env.secrets.Secrets(), UserAgent: fleet.UserAgent(), Throttle: discoveryThrottle,
	})
	if o.collectors.probe {
		host, _ := os.Hostname() // "" is as good: replicas have hosts of their own
		d.probing = d.newScheduler(schedule.Options{Salt: host, Logger: env.logger})
	}
	if o.collectors.server {
		d.scraping = d.newScheduler(schedule.Options{InFlight: scrapesInFlight, Logger: env.logger})
	}
	if o.collectors.gpu {
		d.devices = d.newScheduler(schedule.Options{Logger: env.logger})
		var err error
		if d.hardware, err = newHardware(env, o.collectors, len(cfg.GPUs.Pages) > 0, registry, probes); err != nil {
			return nil, err
		}
	}
	d.metrics = collector.NewExposition(registry, probes)
	d.pushes = otlp.NewMetrics(version.Version, func(w io.Writer) error { return d.metrics.Write(w, expfmt.FmtProtoDelim) }, env.logger)
	d.self.SetShard(o.shard.index, o.shard.count)
	parts := fleet.Options{
		Probing: d.probing, Scraping: d.scraping, Probes: probes, Self: d.self, Health: health.NewShared(time.Now, env.logger), Board: d.board,
		Observers: []fleet.Observer{d}, Logger: env.logger, Secrets: env.secrets.Secrets(),
	}
	if o.stateDir != "" && d.probing != nil {
		parts.Recorder = recorder.New(version.Version+", "+version.GoVersion, time.Now)
	}
	if d.hardware != nil {
		parts.GPUs, parts.GPUScraping, parts.GPUPages = d.hardware.snapshots, d.devices, d.hardware.pages
	}
	d.fleet = fleet.New(parts)
	registry.MustRegister(collector.NewGateways(d.fleet.Gateways, d.fleet.BehindGateways))
	d.self.WatchBudget(d.fleet.BudgetUsed)
	d.self.WatchExports(d.spans.Dropped, d.pushes.Pushes, env.lostLines)
	d.openState()
	var err error
	if d.web, err = d.newWeb(registry); err == nil {
		err = d.activate(cfg)
	}
	if err != nil {
		d.fleet.Close()
		d.state.Release()
		return nil, usageError{err}
	}
	d.self.Reloaded(true, d.started)
	return d, nil
}

func (d *daemon) newScheduler(o schedule.Options) *schedule.Scheduler {
	s := schedule.New(o)
	d.running = append(d.running, s)
	return s
}

func (d *daemon) newWeb(registry *prometheus.Registry) (*web.Server, error) {
	o := web.Options{
		MetricsPath: d.metricsPath, Hosts: d.hosts, Links: d.links,
		Metrics: d.metrics.Write, Formats: collector.Formats(), Scraped: d.self.Scraped, Probe: d.fleet.Probe, Logger: d.env.logger,
		Hangs: func() bool { return slices.ContainsFunc(d.running, (*schedule.Scheduler).Hangs) }, Status: d.board, Gateways: d.board.Gateways, Explain: d.fleet.Explain, Health: d.fleet.State, Gatherer: registry, Info: d.info, MCP: d.mcp, Profiles: d.profiles,
		Config: func() ([]byte, error) { return d.active.Load().Marshal() },
	}
	if r := d.fleet.Recorder; r != nil {
		o.Incidents = r
	}
	if d.hardware != nil {
		o.GPUs = func() *status.GPUPage { return d.board.GPUs(d.hardware.snapshots()) }
	}
	if d.lifecycle {
		o.Reload, o.Muter = d.reload, d.fleet
	}
	return web.New(o)
}

// run runs the parts until ctx ends or one fails. It serves on what open returns or, if nil, on the sockets of the flags.
func (d *daemon) run(ctx context.Context, open func() ([]net.Listener, error), flags *toolkit.FlagConfig) error {
	defer d.fleet.Close()
	listeners, err := open()
	if err != nil {
		d.state.Release()
		return err
	}
	defer closeAll(listeners)
	d.env.logger.Info("starting", "version", version.Info(), "endpoints", len(d.shard.of(d.active.Load().Endpoints)), "page", pageOf(listeners, flags))
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range d.parts() {
		group.Go(func() error { return part(ctx) })
	}
	group.Go(func() error { return d.serve(ctx, listeners, flags) })
	last, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(saveTimeout, cancel) })()
	err = group.Wait()
	if d.state != nil {
		d.state.Close(last)
	}
	if err != nil {
		return err
	}
	d.env.logger.Info("stopped")
	return nil
}

// pageOf is where the status page is, for people on this machine; "" where the toolkit opens the sockets.
func pageOf(listeners []net.Listener, flags *toolkit.FlagConfig) string {
	if len(listeners) == 0 {
		return ""
	}
	host, port, err := net.SplitHostPort(listeners[0].Addr().String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	page := net.JoinHostPort(host, port)
	if flags.WebConfigFile == nil || *flags.WebConfigFile == "" { // else it may be https
		page = "http://" + page + "/"
	}
	return page
}

// parts returns what has to run beside the web server.
func (d *daemon) parts() []func(context.Context) error {
	parts := []func(context.Context) error{d.discovery.Run, d.spans.Run, d.pushes.Run, d.follow, d.fleet.WatchCauses}
	for _, s := range d.running {
		parts = append(parts, s.Run)
	}
	if d.hardware != nil {
		parts = append(parts, d.hardware.parts()...)
	}
	if d.state != nil {
		parts = append(parts, d.state.Run)
	}
	return parts
}

// A smallFleet has fewer endpoints than this. Its heap is so small that it may grow by half before garbage is collected: 50
// endpoints take 1 MB more for it, and a tenth less processor time. And one processor is enough for it. With more, Go's runtime
// wakes a second thread for most tokens that arrive, to find nothing to do: a fifth of the processor time of 50 endpoints.
const smallFleet = 100

// paceRuntime sets how often garbage is collected and how many processors Go code uses at a time, by the number of endpoints,
// unless the environment does. The memory in use of many endpoints changes little: collecting garbage more often costs less
// than the memory that it would otherwise take. Where the kernel does not stamp what arrives, all processors are used, as a
// token that is read late would look late.
func (d *daemon) paceRuntime() {
	small := d.fleet.Size() < smallFleet
	if !d.env.OwnProcess || d.paced != nil && *d.paced == small {
		return
	}
	d.paced = &small
	if os.Getenv("GOGC") == "" {
		percent := 25
		if small {
			percent = 50
		}
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMAXPROCS") == "" && prober.StampsArrivals() {
		if small {
			runtime.GOMAXPROCS(1)
		} else {
			runtime.SetDefaultGOMAXPROCS()
		}
	}
}

type stateFlag struct {
	path  string
	given bool
}

func (f *stateFlag) addFlag(c *kingpin.CmdClause) {
	c.Flag("state.path", "Directory in which histories, states and budgets are kept over restarts. Empty: none. Default: $STATE_DIRECTORY, which systemd sets, or inference_exporter in $XDG_STATE_HOME or in ~/.local/state.").
		PlaceHolder("DIRECTORY").IsSetByUser(&f.given).StringVar(&f.path)
}

// dir returns the directory; "" is none.
func (f *stateFlag) dir() string {
	if f.given {
		return f.path
	}
	if dirs := os.Getenv("STATE_DIRECTORY"); dirs != "" {
		first, _, _ := strings.Cut(dirs, string(os.PathListSeparator))
		return first
	}
	if home := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, "inference_exporter")
	}
	// A user without a home, as in a container, has the root directory for one.
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) && filepath.Dir(home) != home {
		return filepath.Join(home, ".local", "state", "inference_exporter")
	}
	return ""
}

// openState takes the directory of the state and gives the parts of the program what is kept there. It comes before the
// endpoints, which go on where an earlier process ended.
func (d *daemon) openState() {
	if d.stateDir == "" || d.probing == nil {
		return
	}
	d.state = store.Open(store.Options{Dir: d.stateDir, Logger: d.env.logger, Parts: d.fleet.Parts()})
	if d.state == nil {
		return
	}
	d.self.WatchState(d.state.Stats)
	if !d.state.Loaded().IsZero() {
		d.board.Restarted()
	}
}

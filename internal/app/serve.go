package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/version"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"
	"golang.org/x/sync/errgroup"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/discovery"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/schedule"
	"github.com/inference-exporter/inference_exporter/tracing"
	"github.com/inference-exporter/inference_exporter/web"
)

const (
	// listenAddress is the default address of the daemon.
	listenAddress = ":10115"
	// shutdownTimeout is how long open requests may take to finish.
	shutdownTimeout = 3 * time.Second
	// The other limits keep slow clients from holding connections, and stuck
	// readers of the metrics from holding off the other ones.
	readTimeout  = 10 * time.Second
	writeTimeout = time.Minute
	idleTimeout  = 2 * time.Minute
	// scrapesInFlight is how many endpoints have the pages of their servers
	// read at once: enough that those whose servers hang do not hold up the
	// others.
	scrapesInFlight = 1000
)

// serveCommand runs the daemon.
type serveCommand struct {
	file        *string
	endpoints   *[]string
	metricsPath *string
	senses      senses
	web         *toolkit.FlagConfig
}

// senses are the ways to look at an endpoint that are in use.
type senses struct {
	probe, server, gpu bool
	gpuFlags
}

func (s *senses) addFlags(c *kingpin.CmdClause) {
	c.Flag("collector.probe", "Probe the endpoints.").Default("true").BoolVar(&s.probe)
	c.Flag("collector.server", "Read the metrics pages of the servers behind the endpoints.").Default("true").BoolVar(&s.server)
	c.Flag("collector.gpu", "Read the GPUs of this machine, where there is a driver.").Default("true").BoolVar(&s.gpu)
	s.gpuFlags.addFlags(c)
}

func newServeCommand(c *kingpin.CmdClause) *serveCommand {
	cmd := &serveCommand{
		file:        c.Flag("config.file", "Configuration file.").String(),
		endpoints:   c.Flag("endpoint", "URL of an endpoint to probe with all defaults, instead of a configuration file. Repeatable.").PlaceHolder("URL").Strings(),
		metricsPath: c.Flag("web.telemetry-path", "Path of the metrics.").Default("/metrics").String(),
		web:         kingpinflag.AddFlags(c, listenAddress),
	}
	cmd.senses.addFlags(c)
	return cmd
}

func (c *serveCommand) run(ctx context.Context, env environment) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if err := toolkit.Validate(*c.web.WebConfigFile); err != nil {
		return unusable{fmt.Errorf("web configuration %s: %w", *c.web.WebConfigFile, err)}
	}
	d, err := newDaemon(cfg, env, c.senses, *c.metricsPath)
	if err != nil {
		return err
	}
	return d.run(ctx, func() ([]net.Listener, error) { return listen(c.web) }, c.web)
}

// load returns the configuration that the flags name.
func (c *serveCommand) load() (*config.Config, error) {
	switch {
	case *c.file != "" && len(*c.endpoints) > 0:
		return nil, unusable{errors.New("--config.file and --endpoint exclude each other")}
	case *c.file != "":
		return loadConfig(*c.file)
	case len(*c.endpoints) > 0:
		return config.FromURLs(*c.endpoints)
	case c.senses.gpu && !c.senses.probe && !c.senses.server:
		return config.None(), nil
	}
	return nil, unusable{errors.New("nothing to probe: give --config.file FILE or --endpoint URL, or try the command demo")}
}

// daemon is the running program: discovery, schedule, fleet and web server.
type daemon struct {
	env       environment
	discovery discovery.Discoverer
	probing   *schedule.Scheduler // nil where endpoints are not probed
	scraping  *schedule.Scheduler // nil where servers' pages are not read
	hardware  *hardware           // nil where GPUs are not read
	fleet     *fleet
	dialer    *prober.Dialer
	onDemand  *onDemand
	traces    *tracing.Exporter // nil without trace export
	web       *web.Server
}

func newDaemon(cfg *config.Config, env environment, in senses, metricsPath string) (*daemon, error) {
	mappings, err := newMappings(cfg)
	if err != nil {
		return nil, unusable{err}
	}
	registry := prometheus.NewRegistry()
	self := collector.NewSelf(registry)
	probes, servers := collector.NewProbes(time.Now), collector.NewServers()
	traces, err := newTraces(cfg, env, self)
	if err != nil {
		return nil, unusable{err}
	}
	dialer := prober.NewDialer()
	budgets := newBudgets(cfg.Global.Budget)
	self.WatchBudget(budgets.all.Used)
	onDemand := newOnDemand(cfg, dialer, budgets)
	server, err := web.New(web.Options{
		MetricsPath: metricsPath, Version: version.Info(),
		Metrics: collector.NewExposition(registry, probes, servers), Formats: collector.Formats(),
		Scrapes: self, Prober: onDemand, Logger: env.logger,
	})
	if err != nil {
		_ = dialer.Close()
		return nil, unusable{err}
	}
	d := &daemon{
		env: env, discovery: discovery.Static(cfg.Endpoints), dialer: dialer, traces: traces, web: server, onDemand: onDemand,
	}
	if in.probe {
		d.probing = schedule.New(schedule.Options{
			InFlight: cfg.Global.Limits.InFlight, InFlightPerHost: cfg.Global.Limits.InFlightPerHost,
			Logger: env.logger,
		})
	}
	if in.server {
		d.scraping = schedule.New(schedule.Options{InFlight: scrapesInFlight, Logger: env.logger})
	}
	if in.gpu {
		d.hardware = newHardware(cfg, env, in, registry, probes)
	}
	d.fleet = newFleet(cfg, fleetParts{
		dialer: dialer, mappings: mappings, probing: d.probing, scraping: d.scraping,
		probes: probes, servers: servers, self: self, traces: traces, budgets: budgets, logger: env.logger,
	})
	return d, nil
}

// newTraces returns the export of traces that the configuration asks for; nil
// when it asks for none.
func newTraces(cfg *config.Config, env environment, self *collector.Self) (*tracing.Exporter, error) {
	if cfg.Tracing.OTLPEndpoint.URL == nil {
		return nil, nil
	}
	headers := make(map[string]string, len(cfg.Tracing.Headers))
	for name, secret := range cfg.Tracing.Headers {
		headers[name] = string(secret)
	}
	traces, err := tracing.New(context.Background(), tracing.Options{
		Endpoint: cfg.Tracing.OTLPEndpoint.String(), Headers: headers, Version: version.Version, Logger: env.logger,
	})
	if err != nil {
		return nil, err
	}
	self.WatchDroppedSpans(traces.Dropped)
	return traces, nil
}

// run runs the parts until ctx ends or one of them fails. It serves on what
// open returns or, when that is nil, on the sockets that the flags name.
func (d *daemon) run(ctx context.Context, open func() ([]net.Listener, error), flags *toolkit.FlagConfig) error {
	defer d.dialer.Close()
	listeners, err := open()
	if err != nil {
		return err
	}
	defer closeAll(listeners)
	defer d.fleet.close()
	defer d.onDemand.close()
	d.env.logger.Info("starting", "version", version.Info())
	if os.Getenv("GOGC") == "" {
		// What is kept changes little: collecting it more often costs less than
		// the memory that waiting would.
		debug.SetGCPercent(50)
	}
	group, ctx := errgroup.WithContext(ctx)
	sets := make(chan []*config.Endpoint)
	group.Go(func() error {
		d.discovery.Run(ctx, sets)
		return nil
	})
	group.Go(func() error { return d.applySets(ctx, sets) })
	for _, s := range []*schedule.Scheduler{d.probing, d.scraping} {
		if s != nil {
			group.Go(func() error { return s.Run(ctx) })
		}
	}
	if d.hardware != nil {
		for _, part := range d.hardware.parts() {
			group.Go(func() error { return part(ctx) })
		}
	}
	if d.traces != nil {
		group.Go(func() error { return d.traces.Run(ctx) })
	}
	group.Go(func() error { return d.serve(ctx, listeners, flags) })
	if err := group.Wait(); err != nil {
		return err
	}
	d.env.logger.Info("stopped")
	return nil
}

func (d *daemon) applySets(ctx context.Context, sets <-chan []*config.Endpoint) error {
	for {
		select {
		case set := <-sets:
			if err := d.fleet.apply(set); err != nil {
				return err
			}
			d.web.Ready(true)
		case <-ctx.Done():
			return nil
		}
	}
}

// serve answers requests until ctx ends, which ends the probes of open requests
// too.
func (d *daemon) serve(ctx context.Context, listeners []net.Listener, flags *toolkit.FlagConfig) error {
	server := &http.Server{
		Handler: d.web.Handler(), ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(d.env.logger.Handler(), slog.LevelWarn),
	}
	stopped := make(chan struct{})
	running := context.AfterFunc(ctx, func() {
		defer close(stopped)
		shutdown(server)
	})
	for _, l := range listeners {
		if d.env.OnListen != nil {
			d.env.OnListen(l.Addr())
		}
	}
	var err error
	if listeners == nil {
		err = toolkit.ListenAndServe(server, flags, d.env.logger)
	} else {
		err = toolkit.ServeMultiple(listeners, server, flags, d.env.logger)
	}
	if running() { // ended by itself
		return fmt.Errorf("serve http: %w", err)
	}
	<-stopped
	return nil
}

// shutdown lets open requests finish, but not for long.
func shutdown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
}

// listen opens the TCP addresses of the flags before anything else starts, so
// that a taken port ends the program at once. It returns nil where the
// toolkit has to open them: sockets of systemd or of a virtual machine's host.
func listen(flags *toolkit.FlagConfig) ([]net.Listener, error) {
	if flags.WebSystemdSocket != nil && *flags.WebSystemdSocket {
		return nil, nil
	}
	listeners := []net.Listener{}
	for _, address := range *flags.WebListenAddresses {
		if strings.HasPrefix(address, "vsock://") {
			closeAll(listeners)
			return nil, nil
		}
		l, err := listenTCP(address)
		if err != nil {
			closeAll(listeners)
			return nil, err
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// listenTCP listens on an address that a flag gave.
func listenTCP(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if _, ok := errors.AsType[*net.AddrError](err); ok {
		return nil, unusable{fmt.Errorf("open the web server: %w", err)}
	}
	if err != nil {
		return nil, fmt.Errorf("open the web server: %w", err)
	}
	return l, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
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
	"github.com/inference-exporter/inference_exporter/web"
)

const (
	// listenAddress is the default address of the daemon.
	listenAddress = ":10115"
	// shutdownTimeout is how long open requests may take to finish.
	shutdownTimeout = 3 * time.Second
	// readHeaderTimeout and idleTimeout keep slow clients from holding
	// connections.
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
)

// serveCommand runs the daemon.
type serveCommand struct {
	file        *string
	endpoints   *[]string
	metricsPath *string
	web         *toolkit.FlagConfig
}

func newServeCommand(c *kingpin.CmdClause) *serveCommand {
	return &serveCommand{
		file:        c.Flag("config.file", "Configuration file.").String(),
		endpoints:   c.Flag("endpoint", "URL of an endpoint to probe with all defaults, instead of a configuration file. Repeatable.").PlaceHolder("URL").Strings(),
		metricsPath: c.Flag("web.telemetry-path", "Path of the metrics.").Default("/metrics").String(),
		web:         kingpinflag.AddFlags(c, listenAddress),
	}
}

func (c *serveCommand) run(ctx context.Context, env environment) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	d, err := newDaemon(cfg, env, *c.metricsPath)
	if err != nil {
		return err
	}
	return d.run(ctx, c.web)
}

// load returns the configuration that the flags name.
func (c *serveCommand) load() (*config.Config, error) {
	switch {
	case *c.file != "" && len(*c.endpoints) > 0:
		return nil, fmt.Errorf("%w: --config.file and --endpoint exclude each other", errUsage)
	case *c.file != "":
		return config.Load(*c.file)
	case len(*c.endpoints) > 0:
		return config.FromURLs(*c.endpoints)
	}
	return nil, fmt.Errorf("%w: nothing to probe: give --config.file FILE or --endpoint URL, or try the command demo", errUsage)
}

// daemon is the running program: discovery, schedule, fleet and web server.
type daemon struct {
	env       environment
	discovery discovery.Discoverer
	scheduler *schedule.Scheduler
	fleet     *fleet
	dialer    *prober.Dialer
	web       *web.Server
}

func newDaemon(cfg *config.Config, env environment, metricsPath string) (*daemon, error) {
	registry := prometheus.NewRegistry()
	self := collector.NewSelf(registry)
	probes := collector.NewProbes(time.Now)
	server, err := web.New(web.Options{
		MetricsPath: metricsPath, Version: version.Info(),
		Metrics: collector.NewExposition(probes, registry), Formats: collector.Formats(),
		Scrapes: self, Logger: env.logger,
	})
	if err != nil {
		return nil, err
	}
	scheduler := schedule.New(schedule.Options{
		InFlight: cfg.Global.Limits.InFlight, InFlightPerHost: cfg.Global.Limits.InFlightPerHost,
		Logger: env.logger,
	})
	dialer := prober.NewDialer()
	return &daemon{
		env: env, discovery: discovery.Static(cfg.Endpoints), scheduler: scheduler, dialer: dialer, web: server,
		fleet: newFleet(cfg, fleetParts{
			dialer: dialer, scheduler: scheduler, probes: probes, self: self, logger: env.logger,
		}),
	}, nil
}

// run runs the parts until ctx ends or one of them fails.
func (d *daemon) run(ctx context.Context, flags *toolkit.FlagConfig) error {
	listeners, err := listen(flags)
	if err != nil {
		return err
	}
	defer d.dialer.Close()
	defer d.fleet.close()
	d.env.logger.Info("starting", "version", version.Info())
	group, ctx := errgroup.WithContext(ctx)
	sets := make(chan []*config.Endpoint)
	group.Go(func() error {
		d.discovery.Run(ctx, sets)
		return nil
	})
	group.Go(func() error { return d.applySets(ctx, sets) })
	group.Go(func() error { return d.scheduler.Run(ctx) })
	group.Go(func() error { return d.serve(ctx, listeners, flags) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
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

// serve answers requests until ctx ends.
func (d *daemon) serve(ctx context.Context, listeners []net.Listener, flags *toolkit.FlagConfig) error {
	server := &http.Server{
		Handler: d.web.Handler(), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}()
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
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}
	return fmt.Errorf("serve http: %w", err)
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
		l, err := net.Listen("tcp", address)
		if err != nil {
			closeAll(listeners)
			return nil, fmt.Errorf("listen: %w", err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}

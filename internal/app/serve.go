package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/cespare/xxhash/v2"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"

	"github.com/inference-exporter/inference_exporter/alerts"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu/pods"
	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
)

const listenAddress = ":10115"

const maxWebConfigBytes = 1 << 20

const (
	// shutdownTimeout is how long open requests may take to finish.
	shutdownTimeout = 500 * time.Millisecond
	// The other limits keep slow clients from holding connections, and stuck readers of the metrics from holding off others.
	readTimeout  = 10 * time.Second
	writeTimeout = time.Minute
	idleTimeout  = 2 * time.Minute
)

type serveCommand struct {
	daemonOptions
	endpoints []string
	model     string
	state     stateFlag
	web       *toolkit.FlagConfig
	source    source
}

// collectors are the ways to look at an endpoint that are in use, and what to read of the GPUs of this machine.
type collectors struct {
	probe, server, gpu bool
	pods, processes    bool
	socket, sysfs      string
	simulated          bool // GPUs; by the demo alone
}

func (o *collectors) addFlags(c *kingpin.CmdClause) {
	c.Flag("collector.probe", "Probe the endpoints.").Default("true").BoolVar(&o.probe)
	c.Flag("collector.server", "Read the metrics pages of the servers behind the endpoints.").Default("true").BoolVar(&o.server)
	c.Flag("collector.gpu", "Read the GPUs of this machine, where there is a driver.").Default("true").BoolVar(&o.gpu)
	c.Flag("gpu.processes", "Show the processes that use each GPU, with their names. In a container this needs the process ids of the host.").BoolVar(&o.processes)
	c.Flag("gpu.sysfs", "Directory of the machine's sysfs, by which the GPUs of AMD are read.").Default("/sys").StringVar(&o.sysfs)
	c.Flag("gpu.pod-resources", "Ask the kubelet which pod has which GPU. Not in every build: the container image and the releases have it.").BoolVar(&o.pods)
	c.Flag("gpu.pod-resources-socket", "Socket of the kubelet.").Default(pods.DefaultSocket).StringVar(&o.socket)
}

func newServeCommand(c *kingpin.CmdClause) *serveCommand {
	cmd := new(serveCommand)
	c.Flag("config.file", "Configuration file.").StringVar(&cmd.file)
	c.Flag("config.auto-reload-interval", "How often to look whether the configuration file, or one of prompts or recordings that it names, has changed, and to reload it then; 0 is never.").
		Default("0s").SetValue(cli.AtLeast(&cmd.autoReload, 0))
	c.Flag("endpoint", "URL or HOST:PORT of an endpoint to probe with all defaults, instead of a configuration file. Repeatable.").PlaceHolder("URL").StringsVar(&cmd.endpoints)
	c.Flag("model", "Model to ask for at the URLs of --endpoint. It is needed where a server has several.").PlaceHolder("NAME").StringVar(&cmd.model)
	c.Flag("web.telemetry-path", "Path of the metrics.").Default("/metrics").StringVar(&cmd.metricsPath)
	c.Flag("web.enable-lifecycle", "Let POST /-/reload reload the configuration file, as SIGHUP does, and let POST and DELETE /api/v1/endpoints/NAME/mute mute an endpoint.").BoolVar(&cmd.lifecycle)
	c.Flag("web.enable-mcp", "Answer programs at /mcp by the Model Context Protocol: what the API shows, and probes. Not in every build: the container image and the releases have it.").BoolVar(&cmd.mcp)
	c.Flag("web.enable-pprof", "Show profiles of the process at /debug/pprof/, for its developers: what takes memory and processor time.").BoolVar(&cmd.profiles)
	c.Flag("web.allowed-host", "Host name by which the pages, the API, /probe, /mcp and /-/reload may be requested, such as that of a reverse proxy. Addresses, names without a dot, names of this machine and of services in Kubernetes (.svc) are always allowed. Repeatable.").PlaceHolder("NAME").StringsVar(&cmd.hosts)
	cmd.web = kingpinflag.AddFlags(c, listenAddress)
	c.Flag("web.runbook-url", "Address below which the pages of the runbooks are, for the links of the status page; empty is no links.").
		Default(alerts.DefaultRunbookURL).StringVar(&cmd.links.Runbooks)
	c.Flag("web.grafana-url", "Address of the Grafana with the dashboards of this exporter, for the links of the status page.").PlaceHolder("URL").StringVar(&cmd.links.Grafana)
	c.Flag("web.prometheus-url", "Address of the Prometheus that scrapes this exporter, for the links of the status page.").PlaceHolder("URL").StringVar(&cmd.links.Prometheus)
	c.Flag("web.trace-url", "Address of a trace, for the links of the status page, with {trace_id} in place of the id, as in https://jaeger.example.com/trace/{trace_id}.").PlaceHolder("URL").StringVar(&cmd.links.Trace)
	cmd.shard.addFlags(c)
	cmd.collectors.addFlags(c)
	cmd.state.addFlag(c)
	return cmd
}

func (c *serveCommand) run(ctx context.Context, env environment) error {
	if err := c.shard.check(); err != nil {
		return usageError{err}
	}
	// From now on, so that one that comes early does not end the program.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	surviveBrokenPipes()
	for i, target := range c.endpoints {
		c.endpoints[i] = withScheme(ctx, target, env.Stderr)
	}
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	if err := checkWebConfig(*c.web.WebConfigFile); err != nil {
		return usageError{fmt.Errorf("web configuration %s: %w", *c.web.WebConfigFile, err)}
	}
	o := c.daemonOptions
	o.hosts, o.stateDir, o.load, o.hangups = append(ownNames(*c.web.WebListenAddresses), o.hosts...), c.state.dir(), c.loadConfig, hangups
	o.changed = func(loaded *config.Config) bool { return c.source.changed(c.file, loaded) }
	d, err := newDaemon(cfg, env, o)
	if err != nil {
		return err
	}
	return d.run(ctx, func() ([]net.Listener, error) { return listen(c.web) }, c.web)
}

// checkWebConfig checks the file that --web.config.file names; "" is none.
func checkWebConfig(name string) error {
	if name != "" {
		if err := foreign.CheckFile(name, maxWebConfigBytes); err != nil {
			return err
		}
	}
	return toolkit.Validate(name)
}

func (c *serveCommand) loadConfig() (*config.Config, error) {
	switch {
	case c.file != "" && len(c.endpoints) > 0:
		return nil, usageError{errors.New("--config.file and --endpoint are mutually exclusive")}
	case c.model != "" && len(c.endpoints) == 0:
		return nil, usageError{errors.New("--model goes with --endpoint; in a configuration file an endpoint has the key model")}
	case c.autoReload > 0 && c.file == "":
		return nil, usageError{errors.New("--config.auto-reload-interval goes with --config.file")}
	case c.file != "":
		return c.source.load(c.file)
	case len(c.endpoints) > 0:
		cfg, err := config.FromURLs(c.endpoints)
		if err != nil {
			return nil, err
		}
		for _, e := range cfg.Endpoints {
			if err := fleet.SetModel(e, c.model); err != nil {
				return nil, usageError{err}
			}
		}
		return cfg, nil
	case c.collectors.gpu && !c.collectors.probe && !c.collectors.server:
		return config.None(), nil
	}
	return nil, usageError{errors.New("nothing to probe: give --config.file FILE or --endpoint URL, or try the command demo")}
}

// shard is the part of the endpoints that this exporter looks at, of so many exporters with the same configuration.
type shard struct{ index, count int }

func (s *shard) addFlags(c *kingpin.CmdClause) {
	c.Flag("shard.index", "Which part of the endpoints this exporter probes, from 0, when several exporters share a configuration.").
		Envar("SHARD_INDEX").Default("0").SetValue(cli.AtLeast(&s.index, 0))
	c.Flag("shard.count", "How many exporters share the endpoints of a configuration. Each endpoint is probed by one of them.").
		Envar("SHARD_COUNT").Default("1").SetValue(cli.AtLeast(&s.count, 1))
}

func (s shard) check() error {
	if s.index >= s.count {
		return fmt.Errorf("shard %d of %d: want a --shard.index that is less than --shard.count", s.index, s.count)
	}
	return nil
}

func (s shard) of(all []*config.Endpoint) []*config.Endpoint {
	if s.count <= 1 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(e *config.Endpoint) bool { return shardOf(e.Name, s.count) != s.index })
}

// shardOf returns to which of count shards an endpoint belongs, so that one shard more takes its share evenly from all
// and moves nothing else: the jump consistent hash of Lamping and Veach, https://arxiv.org/abs/1406.2294.
func shardOf(endpoint string, count int) int {
	key := xxhash.Sum64String(endpoint)
	shard, next := int64(-1), int64(0)
	for next < int64(count) {
		shard = next
		key = key*2862933555777941757 + 1
		next = int64(float64(shard+1) * (float64(int64(1)<<31) / float64((key>>33)+1)))
	}
	return int(shard)
}

// serve answers requests until ctx ends, which ends the probes of open requests too.
func (d *daemon) serve(ctx context.Context, listeners []net.Listener, flags *toolkit.FlagConfig) error {
	server := &http.Server{
		Handler: d.web.Handler(), ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(d.env.logger.Handler(), slog.LevelWarn),
	}
	server.RegisterOnShutdown(d.web.Close) // which ends the streams of events
	stopped := make(chan struct{})
	running := context.AfterFunc(ctx, func() { // lets open requests finish, but not for long
		defer close(stopped)
		last, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close()
		}
	})
	for _, l := range listeners {
		d.env.OnListen(l.Addr())
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

// listen opens the TCP addresses of the flags before anything else starts, so that a taken port ends the program at
// once. It returns nil where the toolkit has to open them: sockets of systemd or of a virtual machine's host.
func listen(flags *toolkit.FlagConfig) ([]net.Listener, error) {
	isVsock := func(address string) bool { return strings.HasPrefix(address, "vsock://") }
	if flags.WebSystemdSocket != nil && *flags.WebSystemdSocket || slices.ContainsFunc(*flags.WebListenAddresses, isVsock) {
		return nil, nil
	}
	listeners := []net.Listener{}
	for _, address := range *flags.WebListenAddresses {
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
		return nil, usageError{fmt.Errorf("open the web server: %w", err)}
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

// ownNames returns the names that this machine has for itself, and those it listens on.
func ownNames(listenAddresses []string) []string {
	names := slices.Clone(listenAddresses)
	if host, err := os.Hostname(); err == nil {
		names = append(names, host, host+".local")
	}
	return names
}

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kingpin/v2"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/files"
)

// listenAddress is the default address of the daemon.
const listenAddress = ":10115"

// maxWebConfigBytes bounds the file of the flag --web.config.file.
const maxWebConfigBytes = 1 << 20

// serveCommand runs the daemon.
type serveCommand struct {
	file        *string
	endpoints   *[]string
	model       *string
	metricsPath *string
	lifecycle   *bool
	hosts       *[]string
	shard       shard
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
		model:       c.Flag("model", "Model to ask for at the URLs of --endpoint. It is needed where a server has several.").PlaceHolder("NAME").String(),
		metricsPath: c.Flag("web.telemetry-path", "Path of the metrics.").Default("/metrics").String(),
		lifecycle:   c.Flag("web.enable-lifecycle", "Let POST /-/reload load the configuration file anew, as SIGHUP does.").Bool(),
		hosts:       c.Flag("web.allowed-host", "Name by which the pages, the API, /probe and /-/reload may be asked for, as that of a reverse proxy. Addresses, names without a dot, those of this machine and of services in Kubernetes (.svc) need none. Repeatable.").PlaceHolder("NAME").Strings(),
		web:         kingpinflag.AddFlags(c, listenAddress),
	}
	cmd.shard.addFlags(c)
	cmd.senses.addFlags(c)
	return cmd
}

func (c *serveCommand) run(ctx context.Context, env environment) error {
	if err := c.shard.check(); err != nil {
		return unusable{err}
	}
	// From now on, so that one that comes early does not end the program.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	surviveBrokenPipes()
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if err := checkWebConfig(*c.web.WebConfigFile); err != nil {
		return unusable{fmt.Errorf("web configuration %s: %w", *c.web.WebConfigFile, err)}
	}
	d, err := newDaemon(cfg, env, daemonOptions{
		senses: c.senses, shard: c.shard, metricsPath: *c.metricsPath, lifecycle: *c.lifecycle,
		hosts: append(ownNames(*c.web.WebListenAddresses), *c.hosts...), file: *c.file, load: c.load, hangups: hangups,
	})
	if err != nil {
		return err
	}
	return d.run(ctx, func() ([]net.Listener, error) { return listen(c.web) }, c.web)
}

// checkWebConfig checks the file that --web.config.file names; "" is none.
func checkWebConfig(name string) error {
	if name != "" {
		if err := files.Check(name, maxWebConfigBytes); err != nil {
			return err
		}
	}
	return toolkit.Validate(name)
}

// load returns the configuration that the flags name.
func (c *serveCommand) load() (*config.Config, error) {
	switch {
	case *c.file != "" && len(*c.endpoints) > 0:
		return nil, unusable{errors.New("--config.file and --endpoint exclude each other")}
	case *c.model != "" && len(*c.endpoints) == 0:
		return nil, unusable{errors.New("--model goes with --endpoint; in a configuration file an endpoint has the key model")}
	case *c.file != "":
		return loadConfig(*c.file)
	case len(*c.endpoints) > 0:
		return c.fromURLs()
	case c.senses.gpu && !c.senses.probe && !c.senses.server:
		return config.None(), nil
	}
	return nil, unusable{errors.New("nothing to probe: give --config.file FILE or --endpoint URL, or try the command demo")}
}

// fromURLs returns the configuration of the endpoints that flags name.
func (c *serveCommand) fromURLs() (*config.Config, error) {
	cfg, err := config.FromURLs(*c.endpoints)
	if err != nil {
		return nil, err
	}
	for _, e := range cfg.Endpoints {
		if err := setModel(e, *c.model); err != nil {
			return nil, unusable{err}
		}
	}
	return cfg, nil
}

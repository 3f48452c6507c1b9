package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/discovery"
	"github.com/inference-exporter/inference_exporter/engine"
	"github.com/inference-exporter/inference_exporter/web"
)

// force is the configuration in force. It is safe for concurrent use.
type force struct {
	mu      sync.Mutex
	cfg     *config.Config
	at      time.Time // when it was loaded
	refused error     // the latest attempt to replace it, if it failed
}

func (f *force) set(cfg *config.Config, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cfg, f.at, f.refused = cfg, at, nil
}

func (f *force) refuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = err
}

func (f *force) config() *config.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cfg
}

// info is what the pages tell of the daemon.
func (d *daemon) info() web.Info {
	d.force.mu.Lock()
	defer d.force.mu.Unlock()
	info := web.Info{
		Version: version.Version, Revision: version.GetRevision(), Started: d.started,
		ConfigFile: d.file, ConfigLoaded: d.force.at, ConfigOK: d.force.refused == nil,
		ShardIndex: d.shard.index, ShardCount: d.shard.count, Endpoints: d.fleet.size(),
	}
	if d.force.refused != nil {
		info.ConfigError = oneLine(d.force.refused)
	}
	return info
}

// follow takes up what changes until ctx ends: what is discovered, and the
// configuration when somebody asks to load it.
func (d *daemon) follow(ctx context.Context) error {
	d.web.Ready(true)
	defer d.web.Ready(false)
	for {
		select {
		case <-d.discovery.Changed():
			// Discovered endpoints that cannot be used are left out, so that no
			// error is possible that did not come with the configuration.
			if err := d.look(d.force.config(), d.fleet.mappings); err != nil {
				d.env.logger.Error("taking up what was discovered failed", "err", err)
			}
		case <-d.hangups:
			_ = d.takeUp() // the log tells
		case answer := <-d.asked:
			answer <- d.takeUp()
		case <-ctx.Done():
			return nil
		}
	}
}

// reload loads the configuration and puts it in force. After an error the one
// before stays.
func (d *daemon) reload(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case d.asked <- answer:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeUp does what reload says and tells everybody.
func (d *daemon) takeUp() error {
	began := time.Now()
	cfg, err := d.load()
	if err == nil {
		err = d.enforce(cfg)
	}
	d.self.Reloaded(err == nil, began)
	if err != nil {
		d.force.refuse(err)
		for _, problem := range problemsOf(err) {
			d.env.logger.Error("the configuration was not reloaded; the one before stays in force", "err", oneLine(problem))
		}
		return err
	}
	d.force.set(cfg, began)
	d.env.logger.Info("configuration reloaded", "endpoints", d.fleet.size(), "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// problemsOf lists the mistakes in a configuration, or err itself where it is
// none.
func problemsOf(err error) []error {
	var all []error
	for _, p := range configProblems(err) {
		all = append(all, p)
	}
	if len(all) == 0 {
		return []error{err}
	}
	return all
}

// enforce puts a configuration in force, all of it or, after an error, nothing.
// What can fail comes first.
func (d *daemon) enforce(cfg *config.Config) error {
	d.env.hidden.learn(cfg)
	mappings, err := d.mappingsFor(cfg)
	if err != nil {
		return err
	}
	spans, err := d.traces.prepare(cfg.Tracing)
	if err != nil {
		return err
	}
	if err := d.discovery.Apply(cfg); err != nil {
		return err // it has changed nothing
	}
	if err := d.look(cfg, mappings); err != nil {
		return errors.Join(err, d.discovery.Apply(d.force.config()))
	}
	d.traces.use(cfg.Tracing, spans)
	if d.probing != nil {
		d.probing.SetLimits(cfg.Global.Limits.InFlight, cfg.Global.Limits.InFlightPerHost)
	}
	if d.hardware != nil {
		d.hardware.gpus.SetBandwidth(configuredBandwidth(cfg))
	}
	return nil
}

// mappingsFor returns the mappings of a configuration: those in use where they stay
// as they are, so that the readers of pages stay too.
func (d *daemon) mappingsFor(cfg *config.Config) (*engine.Mappings, error) {
	if d.fleet.mappings != nil && reflect.DeepEqual(cfg.Engines, d.force.config().Engines) {
		return d.fleet.mappings, nil
	}
	return engine.NewMappings(cfg.Engines)
}

// look makes the endpoints of the configuration, and those that are discovered
// for it, those that are looked at.
func (d *daemon) look(cfg *config.Config, mappings *engine.Mappings) error {
	found := d.discovery.Endpoints(cfg)
	mine := d.shard.of(found.Endpoints)
	err := d.fleet.apply(plan{cfg: cfg, mappings: mappings, endpoints: mine})
	if err != nil {
		return fmt.Errorf("look at the endpoints: %w", err)
	}
	d.budgets.limit(found.Endpoints)
	d.budgets.share(cfg.Global.Budget, mine, cfg.Modules)
	d.onDemand.use(cfg, d.fleet.modules, d.fleet.known(found.Endpoints))
	rejected := maps.Clone(found.Rejected)
	rejected[discovery.Invalid] += len(d.fleet.refused)
	d.self.SetSilent(found.Waiting)
	d.self.SetRejected(rejected)
	return nil
}

package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/discovery"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/web"
)

type activeConfig struct {
	*config.Config
	at      time.Time // when it was loaded
	refused error     // the latest attempt to replace it, if it failed
}

func (d *daemon) info() web.Info {
	active := d.active.Load()
	info := web.Info{
		Version: version.Version, Revision: version.GetRevision(), Started: stats.UnixSeconds(d.started),
		ConfigFile: d.file, ConfigLoaded: stats.UnixSeconds(active.at), ConfigOK: active.refused == nil,
		Endpoints: d.fleet.Size(),
	}
	if d.shard.count > 1 {
		info.Shard = &web.Shard{Index: d.shard.index, Count: d.shard.count}
	}
	if active.refused != nil {
		info.ConfigError = oneLine(active.refused)
	}
	return info
}

// follow applies what changes until ctx ends: what is discovered, and the configuration when a reload is requested.
func (d *daemon) follow(ctx context.Context) error {
	d.web.Ready(true)
	defer d.web.Ready(false)
	looks := time.Tick(d.autoReload) // at the file; nil is never
	for {
		select {
		case <-d.discovery.Changed():
			// Discovered endpoints that cannot be used are left out: no error is possible that the configuration had not.
			if err := d.applyEndpoints(d.active.Load().Config); err != nil {
				d.env.logger.Error("applying the discovered endpoints failed", "err", err)
			}
		case <-d.hangups:
			_ = d.apply() // which logs the error
		case answer := <-d.reloads:
			answer <- d.apply()
		case <-looks:
			d.applyChanged()
		case <-ctx.Done():
			return nil
		}
	}
}

// reload loads the configuration and makes it the active one. After an error the one before stays.
func (d *daemon) reload(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case d.reloads <- answer:
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

// apply does what reload says, and reports how it went to the log and the metrics.
func (d *daemon) apply() error {
	began := time.Now()
	cfg, err := d.load()
	return d.replace(cfg, err, began)
}

// applyChanged is apply where the files are not the active ones, or the latest attempt failed. It reports mistakes once.
func (d *daemon) applyChanged() {
	active := d.active.Load()
	if active.refused == nil && !d.changed(active.Config) {
		return
	}
	began := time.Now()
	cfg, err := d.load()
	if err == nil || active.refused == nil || err.Error() != active.refused.Error() {
		_ = d.replace(cfg, err, began) // which logs the error
	}
}

// replace makes what was loaded the active configuration, unless that failed.
func (d *daemon) replace(cfg *config.Config, err error, began time.Time) error {
	if err == nil {
		err = d.activate(cfg)
	}
	d.self.Reloaded(err == nil, began)
	if err != nil {
		active := *d.active.Load()
		active.refused = err
		d.active.Store(&active)
		problems := []error{err}
		if mistakes := configProblems(err); len(mistakes) > 0 {
			problems = mistakes
		}
		for _, problem := range problems {
			d.env.logger.Error("reloading the configuration failed; the previous one stays active", "err", oneLine(problem))
		}
		return err
	}
	d.active.Store(&activeConfig{Config: cfg, at: began})
	d.env.logger.Info("configuration reloaded", "endpoints", d.fleet.Size(), "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// activate puts a configuration into effect, all of it or, after an error, nothing. What can fail comes first.
func (d *daemon) activate(cfg *config.Config) error {
	d.env.secrets.Replace(config.Secrets(cfg))
	if err := d.discovery.Apply(cfg); err != nil {
		return err // it has changed nothing
	}
	if err := d.applyEndpoints(cfg); err != nil {
		return errors.Join(err, d.discovery.Apply(d.active.Load().Config))
	}
	d.spans.Use(cfg.Tracing)
	d.metrics.SetCompact(cfg.Metrics.Compact)
	d.pushes.Use(cfg.Metrics)
	if d.probing != nil {
		d.probing.SetLimits(cfg.Global.Limits.InFlight, cfg.Global.Limits.InFlightPerHost)
	}
	if d.hardware != nil {
		for _, p := range d.hardware.sources {
			p.SetBandwidth(fleet.Bandwidths(cfg))
		}
	}
	go debug.FreeOSMemory() // for a moment the text, and what was replaced, took room beside what is active
	return nil
}

// applyEndpoints makes the endpoints of the configuration, and the discovered ones, those that are looked at.
func (d *daemon) applyEndpoints(cfg *config.Config) error {
	found := d.discovery.Endpoints(cfg)
	err := d.fleet.Apply(fleet.Plan{Config: cfg, Endpoints: d.shard.of(found.Endpoints), All: found.Endpoints})
	if err != nil {
		return fmt.Errorf("apply the endpoints: %w", err)
	}
	d.paceRuntime()
	kept := make(map[string]bool, len(found.Endpoints))
	for _, e := range found.Endpoints {
		kept[e.Name] = true
	}
	d.pushes.Retain(kept)
	rejected := maps.Clone(found.Rejected)
	rejected[discovery.Invalid] += d.fleet.Refused()
	d.self.SetSilent(found.Waiting)
	d.self.SetRejected(rejected)
	return nil
}

// settled is for how long a file that looks half written must be the same.
const settled = time.Second

// source loads the configuration file again and again. A file that is read while it is being written can be valid and
// lack endpoints: one that looks so is read again until it no longer changes.
type source struct {
	taken []byte // what was loaded last; nil before that
}

func (s *source) load(name string) (*config.Config, error) {
	data, err := s.read(name)
	if err != nil {
		return nil, usageError{err}
	}
	cfg, err := config.Parse(data, name, fleet.Checks()...)
	if err != nil {
		return nil, usageError{err}
	}
	s.taken = data
	return cfg, nil
}

// changed reports whether the file, or one that it names, is not what was loaded.
func (s *source) changed(name string, loaded *config.Config) bool {
	data, err := config.Read(name)
	return err != nil || !bytes.Equal(data, s.taken) || loaded.FilesChanged()
}

// read returns the contents of a file; of one that looks half written, once they have been the same for settled.
func (s *source) read(name string) ([]byte, error) {
	data, err := config.Read(name)
	for range 5 {
		if err != nil || !s.cut(data) {
			return data, err
		}
		time.Sleep(settled)
		before := data
		if data, err = config.Read(name); err == nil && bytes.Equal(data, before) {
			return data, nil
		}
	}
	return nil, fmt.Errorf("%s is being written: it has changed for %v", name, 5*settled)
}

// cut reports whether data may be the beginning of a file: of the one that was taken or, unlike it, without a last newline.
func (s *source) cut(data []byte) bool {
	rest, ok := bytes.CutPrefix(s.taken, bytes.TrimRight(data, "\n"))
	return ok && len(bytes.TrimSpace(rest)) > 0 || bytes.HasSuffix(s.taken, []byte("\n")) && !bytes.HasSuffix(data, []byte("\n"))
}

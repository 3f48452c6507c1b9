// Package discovery finds the endpoints: those that the configuration lists, and
// those that the service discovery of Prometheus finds.
//
// What is found by files and by HTTP is read by this package itself, within limits that Prometheus does not have.
//
// That discovery has its own metrics, under its own names, once a configuration
// uses it. These count failures, after which the targets found before stay:
//
//   - prometheus_sd_refresh_failures_total (http), with prometheus_sd_http_failures_total
//   - prometheus_sd_file_read_errors_total and prometheus_sd_file_watcher_errors_total
//   - prometheus_sd_dns_lookup_failures_total
//   - prometheus_sd_kubernetes_failures_total
//   - prometheus_sd_consul_rpc_failures_total
//
// Their label `config` is the kind of the sources of one item of the
// configuration with a hash of their settings, such as `file-5f3a90c1`.
package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// defaultThrottle is that of Prometheus.
const defaultThrottle = 5 * time.Second

// Options are what a Finder needs.
type Options struct {
	// Registerer gets the metrics of Prometheus' service discovery when a configuration uses it. Required.
	Registerer prometheus.Registerer
	// Logger logs the failures of sources and the targets that are rejected. Required.
	Logger *slog.Logger
	// Secrets are what no target may repeat.
	Secrets *safetext.Secrets
	// UserAgent is sent with requests for lists of targets.
	UserAgent string
	// Throttle is how long changes of sources are collected before they are reported. 0 means 5 s.
	Throttle time.Duration
}

// Finder finds endpoints. It is safe for concurrent use.
type Finder struct {
	options Options
	changed chan struct{}
	needed  chan struct{} // closed when there is a manager

	limit atomic.Pointer[config.Limits] // of the active configuration

	mu      sync.Mutex
	ctx     context.Context // of the manager
	stop    context.CancelFunc
	running bool
	metrics *promdiscovery.SDMetrics
	own     *ownMetrics
	manager *promdiscovery.Manager // nil until a configuration has discovery
	sources []*source
	items   []*config.Discovery // to which the sources belong
	made    int                 // parts of sources, ever
	cache   cache
	logged  map[complaint]bool // what Endpoints has logged
}

// New returns a Finder. It does nothing before Run.
func New(o Options) *Finder {
	if o.Throttle == 0 {
		o.Throttle = defaultThrottle
	}
	f := &Finder{
		options: o, changed: make(chan struct{}, 1), needed: make(chan struct{}),
		cache: cache{secrets: o.Secrets, builder: labels.NewBuilder(labels.EmptyLabels())},
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// Changed receives after a source found or lost targets, or reported for the first
// time. Changes that were not received yet are one.
func (f *Finder) Changed() <-chan struct{} { return f.changed }

// Apply makes the sources those of cfg. Sources that stay as they were, wherever in the file, go on with what they
// found. What replaces a source, for endpoints of the same template, has what that one found until it knows better.
// With an error nothing changes.
func (f *Finder) Apply(cfg *config.Config) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(cfg.Discovery) > 0 && f.manager == nil {
		if err := f.open(); err != nil {
			return fmt.Errorf("start service discovery: %w", err)
		}
	}
	sources, err := f.sourcesOf(cfg)
	if err != nil {
		return fmt.Errorf("start service discovery: %w", err)
	}
	f.succeed(cfg, sources)
	f.sources, f.items = sources, cfg.Discovery
	f.limit.Store(&cfg.Global.Limits)
	return f.start()
}

// limits returns how much may be found.
func (f *Finder) limits() config.Limits { return *f.limit.Load() }

// open makes the manager of the sources.
func (f *Finder) open() error {
	metrics, err := promdiscovery.CreateAndRegisterSDMetrics(f.options.Registerer)
	if err != nil {
		return err
	}
	own, err := newOwnMetrics(f.options.Registerer, metrics)
	if err != nil {
		return err
	}
	manager := promdiscovery.NewManager(f.ctx, f.options.Logger, f.options.Registerer, metrics, promdiscovery.Updatert(f.options.Throttle))
	if manager == nil {
		return errors.New("metrics are already registered")
	}
	f.metrics, f.own, f.manager = metrics, own, manager
	close(f.needed)
	return nil
}

// start has the manager start and stop what differs, if it runs.
func (f *Finder) start() error {
	if f.manager == nil || !f.running {
		return nil
	}
	sets := map[string]promdiscovery.Configs{}
	for _, s := range f.sources {
		sets[s.name] = nil
		for _, p := range s.parts {
			sets[s.name] = append(sets[s.name], p)
		}
	}
	return f.manager.ApplyConfig(sets)
}

// Run looks for targets until ctx ends. It may be called once, before or after
// Apply. The error is that of starting the sources.
func (f *Finder) Run(ctx context.Context) error {
	f.mu.Lock()
	f.running = true
	err := f.start()
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.running = false
		f.stop()
	}()
	if err != nil {
		return fmt.Errorf("start service discovery: %w", err)
	}
	select {
	case <-f.needed:
	case <-ctx.Done():
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = f.manager.Run() // the error is that of its context
	}()
	for {
		select {
		case found := <-f.manager.SyncCh():
			f.take(found)
		case <-ctx.Done():
			f.stop()
			<-ended
			for range f.manager.SyncCh() {
				// until its sender has ended
			}
			return nil
		}
	}
}

// take keeps what the manager reports: all that each source has found.
func (f *Finder) take(found map[string][]*targetgroup.Group) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := false
	for _, s := range f.sources {
		groups, ok := found[s.name]
		if !ok || s.fixed {
			continue
		}
		before := s.refused
		if f.refuse(s, groups) {
			changed = changed || s.refused != before
			continue
		}
		if news := s.take(groups); news || before > 0 {
			changed = true
			f.settle(s)
		}
	}
	if changed {
		f.notify()
	}
}

// refuse reports whether a source has found more targets than it may; it then keeps those before.
func (f *Finder) refuse(s *source, groups []*targetgroup.Group) bool {
	n := stats.Sum(groups, func(g *targetgroup.Group) int { return len(g.Targets) })
	most := f.limits().DiscoveryTargets
	if n <= most {
		s.refused = 0
		return false
	}
	if s.refused == 0 {
		f.options.Logger.Error("too many discovered targets; keeping the previous ones",
			"config", s.name, "targets", n, "err", tooMany(most))
	}
	s.refused = n
	return true
}

func (f *Finder) notify() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// ownMetrics are those of the discovery by file and by HTTP, named as in Prometheus.
type ownMetrics struct {
	httpFailures, readErrors, watcherErrors prometheus.Counter
	scans                                   prometheus.Summary
	read                                    *prometheus.GaugeVec // when a file was changed that was read
}

// newOwnMetrics registers them in place of those of Prometheus' own discovery.
func newOwnMetrics(registerer prometheus.Registerer, theirs *promdiscovery.SDMetrics) (*ownMetrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &ownMetrics{
		httpFailures:  counter("prometheus_sd_http_failures_total", "Number of HTTP service discovery refresh failures."),
		readErrors:    counter("prometheus_sd_file_read_errors_total", "The number of File-SD read errors."),
		watcherErrors: counter("prometheus_sd_file_watcher_errors_total", "The number of File-SD errors caused by filesystem watch failures."),
		scans: prometheus.NewSummary(prometheus.SummaryOpts{
			Name: "prometheus_sd_file_scan_duration_seconds", Help: "The duration of the File-SD scan in seconds.",
			Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001},
		}),
		read: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "prometheus_sd_file_mtime_seconds", Help: "Timestamp (mtime) of files read by FileSD. Timestamp is set at read time.",
		}, []string{"filename"}),
	}
	for _, mechanism := range []string{"file", "http"} {
		theirs.MechanismMetrics[mechanism].Unregister()
	}
	return m, errors.Join(stats.Map([]prometheus.Collector{m.httpFailures, m.readErrors, m.watcherErrors, m.scans, m.read}, registerer.Register)...)
}

// Package fake serves the status page with a made-up fleet, so that states that
// are rare in life can be looked at: the handlers are the exporter's own, what
// they show is invented.
package fake

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/web"
)

// Board is what the page shows. It is safe for concurrent use.
type Board struct {
	mu       sync.Mutex
	version  uint64
	base     uint64 // the version of the latest reset
	details  map[string]*status.Detail
	versions map[string]uint64 // of rows, those removed included
}

// NewBoard returns a board with the given endpoints.
func NewBoard(details ...*status.Detail) *Board {
	b := &Board{}
	b.Reset(details...)
	return b
}

// Reset replaces everything, as after a restart of the exporter.
func (b *Board) Reset(details ...*status.Detail) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	b.base = b.version
	b.details, b.versions = map[string]*status.Detail{}, map[string]uint64{}
	for _, d := range details {
		b.details[d.Name], b.versions[d.Name] = d, b.version
	}
}

// Set adds or replaces an endpoint.
func (b *Board) Set(d *status.Detail) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	b.details[d.Name], b.versions[d.Name] = d, b.version
}

// Remove takes an endpoint away.
func (b *Board) Remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	delete(b.details, name)
	b.versions[name] = b.version
}

// Fleet returns all endpoints by name.
func (b *Board) Fleet() *status.Fleet {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &status.Fleet{Version: b.version, At: now(), States: b.states(), Endpoints: b.rows(0)}
}

// Changes returns what is new since a version.
func (b *Board) Changes(since uint64) *status.Update {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := &status.Update{Version: b.version, At: now(), States: b.states()}
	if since < b.base || since > b.version {
		u.Reset, u.Endpoints = true, b.rows(0)
		return u
	}
	u.Endpoints = b.rows(since)
	for name, version := range b.versions {
		if b.details[name] == nil && version > since {
			u.Removed = append(u.Removed, name)
		}
	}
	return u
}

// Version returns the version of the latest change of an endpoint.
func (b *Board) Version(name string) (uint64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.details[name]
	return b.versions[name], ok
}

// Detail returns one endpoint.
func (b *Board) Detail(name string) (*status.Detail, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, ok := b.details[name]
	if !ok {
		return nil, false
	}
	page := *d
	page.At, page.Version = now(), b.version
	return &page, true
}

func (b *Board) rows(since uint64) []*status.Row {
	rows := []*status.Row{}
	for _, name := range slices.Sorted(maps.Keys(b.details)) {
		if b.versions[name] > since {
			rows = append(rows, &b.details[name].Row)
		}
	}
	return rows
}

func (b *Board) states() map[health.State]int {
	states := map[health.State]int{}
	for _, d := range b.details {
		states[d.State]++
	}
	return states
}

// now is the time in seconds since 1970.
func now() float64 { return float64(time.Now().UnixMilli()) / 1000 }

// Server serves a board on a port of its own.
type Server struct {
	*httptest.Server
	// Down makes the server cut every connection, as if it were gone.
	Down atomic.Bool
}

// NoMetrics replaces the exposition, which these pages do not show.
type NoMetrics struct{}

func (NoMetrics) Write(io.Writer, expfmt.Format) error { return nil }

// Content is what the pages besides the fleet show.
type Content struct {
	Gateways []*status.Gateway
	GPUs     *status.GPUPage
	Info     web.Info
	Config   string
	// Links are to other systems.
	Links web.Links
	// Probe probes on request; nil is no such page.
	Probe func(context.Context, fleet.ProbeRequest) (*fleet.ProbeAnswer, error)
	// Muter mutes; nil is not allowed.
	Muter web.Muter
}

// Serve starts a server. Errors are those of web.New.
func Serve(b *Board, c Content) (*Server, error) {
	pages, err := web.New(web.Options{
		MetricsPath: "/metrics", Metrics: NoMetrics{}.Write, Scraped: func(time.Duration, int64) {},
		Formats: []expfmt.Format{expfmt.NewFormat(expfmt.TypeTextPlain)},
		Logger:  slog.New(slog.DiscardHandler),
		Links:   c.Links, Probe: c.Probe, Muter: c.Muter, Explain: Explain,
		Status: b, Gatherer: registry(), Hangs: func() bool { return false },
		Gateways: func() *status.GatewayPage { return &status.GatewayPage{At: now(), Gateways: c.Gateways} },
		GPUs:     func() *status.GPUPage { return c.GPUs },
		Info:     func() web.Info { return c.Info },
		Config:   func() ([]byte, error) { return []byte(c.Config), nil },
	})
	if err != nil {
		return nil, err
	}
	s := &Server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Down.Load() {
			panic(http.ErrAbortHandler)
		}
		pages.Handler().ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Config.RegisterOnShutdown(pages.Close)
	return s, nil
}

// Break takes the server away, its open streams too.
func (s *Server) Break() {
	s.Down.Store(true)
	s.CloseClientConnections()
}

// registry has some metrics of the exporter about itself.
func registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	lag := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "inference_exporter_schedule_lag_seconds", Help: "How late probes start.",
		Buckets: []float64{0.0001, 0.001, 0.01, 0.1},
	})
	for range 99 {
		lag.Observe(0.0005)
	}
	lag.Observe(0.05)
	flight := prometheus.NewGauge(prometheus.GaugeOpts{Name: "inference_exporter_probes_in_flight", Help: "Probes that run now."})
	flight.Set(3)
	missed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "inference_exporter_missed_runs_total", Help: "Runs that were skipped, by reason.",
	}, []string{"reason"})
	missed.WithLabelValues("overrun").Add(2)
	missed.WithLabelValues("limit").Add(0)
	memory := prometheus.NewGauge(prometheus.GaugeOpts{Name: "process_resident_memory_bytes", Help: "Resident memory size in bytes."})
	memory.Set(48 << 20)
	rejected := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "inference_exporter_discovery_rejected_targets", Help: "Discovered targets that are rejected.",
	}, []string{"reason"})
	rejected.WithLabelValues("invalid").Set(2)
	rejected.WithLabelValues("duplicate_name").Set(1)
	rejected.WithLabelValues("too_many").Set(0)
	loaded := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "inference_exporter_config_last_reload_success_timestamp_seconds", Help: "When the configuration was last read with success.",
	})
	loaded.Set(now() - 4000)
	r.MustRegister(lag, flight, missed, memory, rejected, loaded)
	return r
}

package fake

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/status"
	"github.com/inference-exporter/inference_exporter/web"
)

// Server serves a board on a port of its own.
type Server struct {
	*httptest.Server
	// Down makes the server cut every connection, as if it were gone.
	Down atomic.Bool
}

// noMetrics stands in for the exposition, which these pages do not show.
type noMetrics struct{}

func (noMetrics) Write(io.Writer, expfmt.Format) error { return nil }
func (noMetrics) Scraped(time.Duration, int64)         {}

// Content is what the pages besides the fleet show.
type Content struct {
	GPUs   *status.GPUPage
	Info   web.Info
	Config string
}

// Serve starts a server. Errors are those of web.New.
func Serve(b *Board, c Content) (*Server, error) {
	pages, err := web.New(web.Options{
		MetricsPath: "/metrics", Metrics: noMetrics{}, Scrapes: noMetrics{},
		Formats: []expfmt.Format{expfmt.NewFormat(expfmt.TypeTextPlain)},
		Logger:  slog.New(slog.DiscardHandler),
		Status:  b, Gatherer: registry(),
		GPUs:   func() *status.GPUPage { return c.GPUs },
		Info:   func() web.Info { return c.Info },
		Config: func() ([]byte, error) { return []byte(c.Config), nil },
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
	loaded := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "inference_exporter_config_last_reload_success_timestamp_seconds", Help: "When the configuration was last read with success.",
	})
	loaded.Set(now() - 4000)
	r.MustRegister(lag, flight, missed, memory, loaded)
	return r
}

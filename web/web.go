// Package web is the daemon's own HTTP server: the status page and its API, the
// metrics, a probe on request, and the paths by which the daemon is managed. It
// reads what others publish; the only thing that it can start, besides probes,
// is a reload of the configuration.
package web

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/status"
)

// Options say what the server shows. Of what follows Logger, nil is a page that
// says that it is not there.
type Options struct {
	// MetricsPath is the path of the metrics, usually /metrics.
	MetricsPath string
	// Hosts are names by which the exporter may be asked, beside addresses and
	// names that the public DNS does not have. With a port, that is ignored.
	Hosts []string
	// Version is shown on the landing page, which stands in for the status page.
	Version string
	// Metrics are the metrics, Formats those that they can be written in, by
	// preference, and Scrapes who wants to know of scrapes.
	Metrics Exposition
	Formats []expfmt.Format
	Scrapes ScrapeObserver
	// Prober runs the probes of the page /probe; nil is no such page.
	Prober Prober
	Logger *slog.Logger

	// Hangs reports whether the probes make no progress; nil is never.
	Hangs func() bool
	// Status is what the status page shows.
	Status Status
	// GPUs returns the page of the GPUs.
	GPUs func() *status.GPUPage
	// Gatherer has the exporter's metrics about itself.
	Gatherer prometheus.Gatherer
	// Info tells about the process.
	Info func() Info
	// Config returns the configuration in force as YAML, without secrets.
	Config func() ([]byte, error)
	// Reload returns nil once a new configuration is in force, and otherwise why
	// the old one stays; nil is a reload that is not allowed.
	Reload func(context.Context) error
}

// Server serves the pages. Its handler may be used before Ready is called.
type Server struct {
	handler http.Handler
	hub     *hub
	hangs   func() bool
	ready   atomic.Bool
}

// New returns a server for the given pages. An error says that MetricsPath cannot
// be used, or what is wrong with the files of the status page.
func New(o Options) (*Server, error) {
	if err := checkPath(o.MetricsPath); err != nil {
		return nil, err
	}
	s := &Server{hub: newHub(o.Status, o.Logger), hangs: o.Hangs}
	if s.hangs == nil {
		s.hangs = func() bool { return false }
	}
	routes, err := s.routes(&o)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.Handle(r.pattern, r.handler)
	}
	s.handler = withHeaders(&guard{
		next: http.NewCrossOriginProtection().Handler(mux), metrics: o.MetricsPath, allowed: hostNames(o.Hosts),
	})
	return s, nil
}

// Handler returns the handler of all pages.
func (s *Server) Handler() http.Handler { return s.handler }

// Ready sets whether the probes run, which /-/ready answers.
func (s *Server) Ready(ready bool) { s.ready.Store(ready) }

// Close ends the streams of events, which would hold up the end of the
// http.Server, and refuses new ones.
func (s *Server) Close() { s.hub.close() }

// Package web is the daemon's own HTTP server: the status page and its API, the metrics, a
// probe on request, and the paths by which the daemon is managed. Besides starting probes it
// changes only the configuration, by a reload, and the mutes of endpoints.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"path"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

// Options say what the server shows.
type Options struct {
	// MetricsPath is the path of the metrics, usually /metrics.
	MetricsPath string
	// Hosts are names by which clients may address the exporter, beside addresses and
	// names that the public DNS does not have. With a port, that is ignored.
	Hosts []string
	// Metrics writes all metrics in one of Formats, which are in order of preference. Scraped observes how long those of
	// each scrape took to write, and their size uncompressed.
	Metrics func(w io.Writer, format expfmt.Format) error
	Formats []expfmt.Format
	Scraped func(d time.Duration, size int64)
	// Links are what the status page links to.
	Links Links
	// Probe probes once for the page /probe, whatever comes out, and ends at the latest with ctx; nil is no such page. An
	// error means that it did not probe; a *fleet.Refusal says what is wrong with the request.
	Probe  func(ctx context.Context, r fleet.ProbeRequest) (*fleet.ProbeAnswer, error)
	Logger *slog.Logger

	// Hangs reports whether the probes make no progress.
	Hangs func() bool
	// Status is what the status page shows.
	Status Status
	// Explain returns why an endpoint is as it is; false is that there is none of that name.
	Explain func(name string) (*explain.Report, bool)
	// Health returns the state of an endpoint; nil is that there is none of that name.
	Health func(name string) *health.Status
	// Incidents are the recordings of incidents; nil where none are kept.
	Incidents Incidents
	// Gateways returns the page of the gateways.
	Gateways func() *status.GatewayPage
	// GPUs returns the page of the GPUs; nil where none are read.
	GPUs func() *status.GPUPage
	// Gatherer has the exporter's metrics about itself.
	Gatherer prometheus.Gatherer
	// Info describes the process.
	Info func() Info
	// Config returns the active configuration as YAML, without secrets.
	Config func() ([]byte, error)
	// Reload returns nil once a new configuration is active, and otherwise why
	// the old one remains; nil is a reload that is not allowed.
	Reload func(context.Context) error
	// Muter mutes endpoints; nil is a mute that is not allowed.
	Muter Muter
	// MCP is whether programs may ask by the Model Context Protocol.
	MCP bool
	// Profiles is whether the profiles of the process are at /debug/pprof/.
	Profiles bool
}

// Server serves the pages. Its handler may be used before Ready is called.
type Server struct {
	handler http.Handler
	hub     *hub
	hangs   func() bool
	ready   atomic.Bool
}

// New returns a server for the given pages. An error says what is wrong with MetricsPath or Links, or that MCP is not built in.
func New(o Options) (*Server, error) {
	if err := checkPath(o.MetricsPath); err != nil {
		return nil, err
	}
	s := &Server{hub: newHub(o.Status, o.Logger), hangs: o.Hangs}
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

// Close ends the streams of events, which would hold up the end of the http.Server, and refuses new ones.
func (s *Server) Close() { s.hub.close() }

type route struct {
	pattern string
	handler http.Handler
}

func (s *Server) routes(o *Options) ([]route, error) {
	routes, err := pageRoutes(o)
	if err != nil {
		return nil, err
	}
	routes = append(routes, apiRoutes(o)...)
	pack := newCompression()
	pack.compress(routes)
	scrape := &metricsHandler{Options: o, pack: pack, slots: make(slots, maxScrapes), held: heldPages{limit: maxHeldBytes}}
	routes = append(routes, route{"GET " + exactly(o.MetricsPath), scrape})
	var probe *probeHandler // nil without probes on request
	if o.Probe != nil {
		probe = newProbeHandler(o)
		routes = append(routes, route{"GET " + probePath, probe}, route{"POST " + probePath, probe})
	}
	if o.MCP {
		handler, err := newMCPHandler(o, probe)
		if err != nil {
			return nil, err
		}
		routes = append(routes, route{mcpPath, handler})
	}
	if o.Profiles {
		routes = append(routes, profileRoutes()...)
	}
	return append(routes,
		route{"GET /api/v1/events", s.hub},
		route{"GET " + healthyPath, http.HandlerFunc(s.serveHealthy)},
		route{"GET " + readyPath, http.HandlerFunc(s.serveReady)},
		route{"POST " + reloadPath, serveReload(o.Reload)},
		route{"PUT " + reloadPath, serveReload(o.Reload)},
		route{"POST " + mutePath, serveMute(o.Muter)},
		route{"DELETE " + mutePath, serveMute(o.Muter)},
	), nil
}

// profileRoutes are those of net/http/pprof, but for the command line of the process.
func profileRoutes() []route {
	return []route{
		{"GET /debug/pprof/", http.HandlerFunc(pprof.Index)},
		{"GET /debug/pprof/cmdline", http.NotFoundHandler()},
		{"GET /debug/pprof/profile", http.HandlerFunc(pprof.Profile)},
		{"GET /debug/pprof/symbol", http.HandlerFunc(pprof.Symbol)},
		{"GET /debug/pprof/trace", http.HandlerFunc(pprof.Trace)},
	}
}

// exactly is the pattern of a path that takes no others below it.
func exactly(p string) string {
	if p == "/" {
		return "/{$}"
	}
	return p
}

func pageRoutes(o *Options) ([]route, error) {
	shell, err := newShell(o)
	if err != nil {
		return nil, err
	}
	routes := assetRoutes()
	if o.MetricsPath != "/" {
		routes = append(routes, route{"GET /{$}", shell.page("fleet")})
	}
	return append(routes,
		route{"GET /endpoint/{name...}", shell.page("endpoint")},
		route{"GET /gpus", shell.page("gpus")},
		route{"GET /self", shell.page("self")},
		route{"GET /config", shell.page("config")},
	), nil
}

var (
	plainPath = regexp.MustCompile(`^/[A-Za-z0-9._~/-]*$`)
	takenPath = regexp.MustCompile(`^/(probe|mcp|gpus|self|config|(-|api|assets|debug|endpoint)(/.*)?)$`)
)

// checkPath refuses what the mux would take for a pattern, could never match, or has already.
func checkPath(p string) error {
	if !plainPath.MatchString(p) || path.Clean(p) != p {
		return fmt.Errorf("path of the metrics %q: want a plain one like /metrics", p)
	}
	if m := takenPath.FindString(p); m != "" {
		return fmt.Errorf("path of the metrics %q: the path is taken; want one like /metrics", p)
	}
	return nil
}

// Paths by which the exporter is managed.
const (
	healthyPath = "/-/healthy"
	readyPath   = "/-/ready"
	reloadPath  = "/-/reload"
)

const mcpPath = "/mcp"

func serveReload(reload func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if reload == nil {
			plainText(w, http.StatusForbidden, "a reload by HTTP is not allowed: it needs the flag --web.enable-lifecycle")
			return
		}
		err := reload(r.Context())
		// The server's own limit counts from the request, and a reload may take longer.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
		if err != nil {
			plainText(w, http.StatusInternalServerError, err.Error())
			return
		}
		plainText(w, http.StatusOK, "reloaded")
	}
}

// serveHealthy answers whether the process does its work, so that one that hangs is started again.
func (s *Server) serveHealthy(w http.ResponseWriter, _ *http.Request) {
	if s.hangs() {
		plainText(w, http.StatusServiceUnavailable, "the scheduler hangs")
		return
	}
	plainText(w, http.StatusOK, "healthy")
}

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	if s.ready.Load() && !s.hangs() {
		plainText(w, http.StatusOK, "ready")
		return
	}
	plainText(w, http.StatusServiceUnavailable, "not ready")
}

func plainText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}

const mutePath = "/api/v1/endpoints/{name}/mute"

const maxMuteBytes = 4 << 10

// Muter mutes endpoints, for alerts and pages; probes go on.
type Muter interface {
	// Mute mutes an endpoint from now on, and Unmute ends that. Their errors are those of fleet.Fleet.
	Mute(endpoint string, d time.Duration, reason string) error
	Unmute(endpoint string) error
}

// serveMute answers POST and DELETE at mutePath; nil is not allowed. Whoever mutes an endpoint silences
// its alerts, so that the same flag allows it as a reload.
func serveMute(muter Muter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if muter == nil {
			jsonError(w, http.StatusForbidden, "a mute by HTTP is not allowed: it needs the flag --web.enable-lifecycle")
			return
		}
		switch err := mute(muter, w, r); {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case errors.Is(err, health.ErrNoEndpoint):
			jsonError(w, http.StatusNotFound, err.Error())
		default:
			jsonError(w, http.StatusBadRequest, err.Error())
		}
	}
}

// mute does what a request asks for.
func mute(muter Muter, w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if r.Method == http.MethodDelete {
		return muter.Unmute(name)
	}
	var request struct {
		Minutes float64 `json:"minutes"`
		Reason  string  `json:"reason"`
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxMuteBytes))
	body.DisallowUnknownFields()
	if body.Decode(&request) != nil {
		return errors.New(`want a body as {"minutes": 60, "reason": "new driver"}`)
	}
	if request.Minutes > health.MaxMute.Minutes() { // before it is more than a duration holds
		return health.ErrDuration
	}
	return muter.Mute(name, time.Duration(request.Minutes*float64(time.Minute)), request.Reason)
}

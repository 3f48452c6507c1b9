// Package web is the daemon's own HTTP server: pages for people and
// Prometheus. It reads what others publish and changes nothing.
package web

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/common/expfmt"
	toolkit "github.com/prometheus/exporter-toolkit/web"
)

// maxScrapes is how many scrapes may run at once; a further one waits. Two
// Prometheus servers scrape in parallel, and no more disturbs the probes.
const maxScrapes = 2

// Exposition writes all metrics in a format.
type Exposition interface {
	Write(w io.Writer, format expfmt.Format) error
}

// ScrapeObserver is told of each scrape that was answered: how long the
// metrics took to write, and their size before compression.
type ScrapeObserver interface {
	Scraped(d time.Duration, size int64)
}

// Options say what the server shows.
type Options struct {
	// MetricsPath is the path of the metrics, usually /metrics.
	MetricsPath string
	// Version is shown on the landing page.
	Version string
	// Metrics are the metrics, Formats those that they can be written in, by
	// preference, and Scrapes who wants to know of scrapes.
	Metrics Exposition
	Formats []expfmt.Format
	Scrapes ScrapeObserver
	// Prober runs the probes of the page /probe; nil is no such page.
	Prober Prober
	Logger *slog.Logger
}

// Server serves the pages. Its handler may be used before Ready is called.
type Server struct {
	handler http.Handler
	ready   atomic.Bool
}

// New returns a server for the given pages. An error means that MetricsPath
// cannot be used.
func New(o Options) (*Server, error) {
	if err := checkPath(o.MetricsPath); err != nil {
		return nil, err
	}
	s := &Server{}
	mux := http.NewServeMux()
	metrics, err := compressed(&metricsHandler{
		metrics: o.Metrics, formats: o.Formats, scrapes: o.Scrapes, logger: o.Logger,
		turns: make(turns, maxScrapes),
	})
	if err != nil {
		return nil, err
	}
	landing, err := toolkit.NewLandingPage(toolkit.LandingConfig{
		Name:        "inference_exporter",
		Description: "Prometheus exporter and synthetic prober for inference endpoints",
		Version:     o.Version,
		Profiling:   "false",
		Links: []toolkit.LandingLinks{
			{Address: o.MetricsPath, Text: "Metrics", Description: "What Prometheus scrapes"},
			{Address: "/-/healthy", Text: "Healthy", Description: "Is the process alive"},
			{Address: "/-/ready", Text: "Ready", Description: "Are the probes running"},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("build the landing page: %w", err)
	}
	if o.MetricsPath == "/" {
		mux.Handle("GET /{$}", metrics)
	} else {
		mux.Handle("GET "+o.MetricsPath, metrics)
		mux.Handle("GET /{$}", landing)
	}
	if o.Prober != nil {
		mux.Handle("GET "+probePath, newProbeHandler(&o))
	}
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) {
		plainText(w, http.StatusOK, "healthy")
	})
	mux.HandleFunc("GET /-/ready", s.serveReady)
	s.handler = mux
	return s, nil
}

var plainPath = regexp.MustCompile(`^/[A-Za-z0-9._~/-]*$`)

// checkPath refuses what the mux would take for a pattern, could never match,
// or has already.
func checkPath(p string) error {
	if !plainPath.MatchString(p) || path.Clean(p) != p {
		return fmt.Errorf("path of the metrics %q: want a plain one like /metrics", p)
	}
	if strings.HasPrefix(p+"/", "/-/") || p == probePath {
		return fmt.Errorf("path of the metrics %q: %s and the paths under /-/ are taken", p, probePath)
	}
	return nil
}

// Handler returns the handler of all pages.
func (s *Server) Handler() http.Handler { return s.handler }

// Ready tells whether the probes run, which /-/ready answers.
func (s *Server) Ready(ready bool) { s.ready.Store(ready) }

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	if s.ready.Load() {
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

// compressed wraps h in the compression that the client asks for, with a limit
// on each write. The fastest level costs a fifth of the default one and saves
// nearly as much.
func compressed(h http.Handler) (http.Handler, error) {
	wrap, err := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(true))
	if err != nil {
		return nil, fmt.Errorf("set up compression: %w", err)
	}
	return withDeadlines(wrap(h)), nil
}

// metricsHandler answers scrapes.
type metricsHandler struct {
	metrics Exposition
	formats []expfmt.Format
	scrapes ScrapeObserver
	logger  *slog.Logger
	turns   turns
}

func (h *metricsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.turns.take(r.Context(), maxWait); err != nil {
		plainText(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer h.turns.leave()
	start := time.Now()
	format := expfmt.NegotiateAccept(r.Header, h.formats...)
	w.Header().Set("Content-Type", string(format))
	out := &countingWriter{w: w}
	if err := h.metrics.Write(out, format); err != nil {
		h.abort(w, out, err)
		return
	}
	h.scrapes.Scraped(time.Since(start), out.n)
}

// abort ends a scrape that failed. Once a part is out, only cutting the
// connection keeps the client from taking it for the whole.
func (h *metricsHandler) abort(w http.ResponseWriter, out *countingWriter, err error) {
	if out.failed {
		return // the client is gone
	}
	h.logger.Error("writing the metrics failed", "err", err)
	if out.n > 0 {
		panic(http.ErrAbortHandler)
	}
	plainText(w, http.StatusInternalServerError, "writing the metrics failed")
}

// countingWriter counts what was written and tells a broken client from a
// broken exposition.
type countingWriter struct {
	w      io.Writer
	n      int64
	failed bool
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.failed = c.failed || err != nil
	return n, err
}

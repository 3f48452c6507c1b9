package web

import (
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/common/expfmt"
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

// metricsHandler answers scrapes.
type metricsHandler struct {
	metrics Exposition
	formats []expfmt.Format
	scrapes ScrapeObserver
	logger  *slog.Logger
	turns   turns
}

func newMetricsHandler(o *Options) *metricsHandler {
	return &metricsHandler{
		metrics: o.Metrics, formats: o.Formats, scrapes: o.Scrapes, logger: o.Logger,
		turns: make(turns, maxScrapes),
	}
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

package web

import (
	"context"
	_ "embed" // of confirm.html
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/internal/fleet"
)

const (
	// probePath is the path of the page.
	probePath = "/probe"
	// maxProbes is how many probes the page runs at once; a further one waits. A
	// probe of a target that hangs costs little but its slot.
	maxProbes = 1000
	// maxHungProbes is how many of them may be of targets whose latest probe timed out.
	maxHungProbes = maxProbes / 2
	// scrapeMargin is what an answer needs to get back to the scraper in time.
	scrapeMargin = 500 * time.Millisecond
	// answerTimeout limits the writing of an answer to a slow client.
	answerTimeout = 10 * time.Second
	// scrapeTimeoutHeader has how long Prometheus waits.
	scrapeTimeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"
)

// probeHandler answers /probe?target=&module=&api=&model=&debug=true. A probe costs money: to a browser, which any page
// can make send a GET, the answer is a page that asks first, with a form that sends a POST.
type probeHandler struct {
	*Options
	slots slots
	hung  hungTargets
}

func newProbeHandler(o *Options) *probeHandler {
	return &probeHandler{
		Options: o, slots: make(slots, maxProbes),
		hung: hungTargets{slots: make(slots, maxHungProbes), known: map[string]struct{}{}},
	}
}

func (h *probeHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodPost { // a probe costs money, and HEAD shows nothing of it
		w.Header().Set("Allow", "GET, POST")
		plainText(w, http.StatusMethodNotAllowed, "want GET or POST")
		return
	}
	request, err := probeRequest(r)
	if err != nil {
		plainText(w, http.StatusBadRequest, err.Error())
		return
	}
	if r.Method == http.MethodGet && fromBrowser(r.Header) {
		askToConfirm(w, request.Target)
		return
	}
	answer, err := h.probe(r.Context(), request)
	if r.Context().Err() != nil {
		err = canceled()
	}
	// The server's own limit counts from the request, which is too short for a long probe.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
	if err != nil {
		h.refuse(w, err)
		return
	}
	if err := h.write(w, r, answer); err != nil {
		h.Logger.Debug("writing a probe's metrics failed", "err", err)
		panic(http.ErrAbortHandler) // so that a part is not taken for the whole
	}
}

// probe waits for its slot, which the limit includes.
func (h *probeHandler) probe(ctx context.Context, r fleet.ProbeRequest) (*fleet.ProbeAnswer, error) {
	start := time.Now()
	wait := maxWait
	if r.Limit > 0 {
		wait = min(wait, r.Limit)
	}
	if h.hung.has(r.Target) {
		if err := h.hung.slots.acquire(ctx, wait); err != nil {
			return nil, err
		}
		defer h.hung.slots.release()
		wait = max(1, wait-time.Since(start))
	}
	if err := h.slots.acquire(ctx, wait); err != nil {
		return nil, err
	}
	defer h.slots.release()
	if r.Limit > 0 {
		r.Limit = max(1, r.Limit-time.Since(start))
	}
	answer, err := h.Probe(ctx, r)
	if err == nil {
		// A client that gave up had waited for long as well.
		h.hung.learn(r.Target, answer.TimedOut || ctx.Err() != nil)
	}
	return answer, err
}

func (h *probeHandler) refuse(w http.ResponseWriter, err error) {
	refusal, ok := errors.AsType[*fleet.Refusal](err)
	switch {
	case ok && refusal.Forbidden:
		plainText(w, http.StatusForbidden, refusal.Reason)
	case ok && refusal.Busy:
		plainText(w, http.StatusServiceUnavailable, refusal.Reason)
	case ok:
		plainText(w, http.StatusBadRequest, refusal.Reason)
	default:
		h.Logger.Error("starting a probe on request failed", "err", err)
		plainText(w, http.StatusServiceUnavailable, "running the probe failed; see the log")
	}
}

// write writes the metrics or, to find out why they are so, the report with the metrics as text below it.
func (h *probeHandler) write(w http.ResponseWriter, r *http.Request, a *fleet.ProbeAnswer) error {
	format := expfmt.NegotiateAccept(r.Header, h.Formats...)
	if r.URL.Query().Get("debug") != "true" {
		w.Header().Set("Content-Type", string(format))
		return a.Metrics.Write(w, format)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err := a.Report(w); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\nMetrics\n"); err != nil {
		return err
	}
	return a.Metrics.Write(w, expfmt.FmtText)
}

func probeRequest(r *http.Request) (fleet.ProbeRequest, error) {
	q := r.URL.Query()
	limit, err := scrapeLimit(r.Header)
	request := fleet.ProbeRequest{
		Target: q.Get("target"), Module: q.Get("module"), API: q.Get("api"), Model: q.Get("model"), Limit: limit,
	}
	if err == nil && request.Target == "" {
		err = errors.New("parameter target is missing: want the name or the URL of an endpoint")
	}
	return request, err
}

// scrapeLimit is how long a probe may take for its answer to reach the scraper; 0 is without the header.
func scrapeLimit(h http.Header) (time.Duration, error) {
	text := h.Get(scrapeTimeoutHeader)
	if text == "" {
		return 0, nil
	}
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(s) || s <= scrapeMargin.Seconds() {
		return 0, fmt.Errorf("header %s is %.32q: want more than %g seconds", scrapeTimeoutHeader, text, scrapeMargin.Seconds())
	}
	// What exceeds a day is no limit that matters, and might not fit.
	return time.Duration(min(s, 86400)*float64(time.Second)) - scrapeMargin, nil
}

// maxHung is how many targets are remembered to hang: more than have slots.
const maxHung = 4 * maxHungProbes

// hungTargets are those whose latest probe timed out. Their probes hold a slot for
// long, so that they take one of fewer first. It is safe for concurrent use.
type hungTargets struct {
	slots slots

	mu    sync.Mutex
	known map[string]struct{}
}

func (h *hungTargets) has(target string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.known[target]
	return ok
}

func (h *hungTargets) learn(target string, timedOut bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !timedOut {
		delete(h.known, target)
	} else if len(h.known) < maxHung {
		h.known[target] = struct{}{}
	}
}

// confirmation is the page that asks whether to probe. Its form sends a POST to the page's own address.
//
//go:embed confirm.html
var confirmation string

// askToConfirm answers a browser that requests a probe of a target by GET.
func askToConfirm(w http.ResponseWriter, target string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	// With no-referrer the form would not say which site sends it.
	w.Header().Set("Referrer-Policy", "same-origin")
	w.WriteHeader(http.StatusForbidden)
	_, _ = fmt.Fprintf(w, confirmation, html.EscapeString(target))
}

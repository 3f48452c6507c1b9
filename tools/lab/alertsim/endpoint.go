package main

import (
	"log/slog"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/users"
)

const (
	// scrapeInterval is that of the Prometheus in the simulation.
	scrapeInterval = 15 * time.Second
	// probeTimeout is the default of timeout.
	probeTimeout = time.Minute
)

// objectives are those of each simulated endpoint.
func objectives() *series.Objectives {
	return &series.Objectives{Share: 0.99, TTFT: 500 * time.Millisecond, TPOT: 50 * time.Millisecond}
}

// page is an incident that began to page, as a Prometheus sees it.
type page struct {
	at, start time.Time
	kind      health.Kind
}

// endpoint is a simulated endpoint, judged by the exporter's own code.
type endpoint struct {
	now      time.Time
	interval time.Duration
	shared   *health.Shared
	health   *health.Endpoint
	series   *health.Series
	judged   *series.Objectives
	scrape   time.Time // the next one
	pages    []page
	paging   health.Kind // kind of the incident that pages; "" is none
}

// newEndpoint returns one that is known from a time on, and scraped first at another.
func newEndpoint(interval time.Duration, from, scrape time.Time) *endpoint {
	e := &endpoint{now: from, interval: interval, judged: objectives(), scrape: scrape}
	e.shared = health.NewShared(func() time.Time { return e.now }, slog.New(slog.DiscardHandler))
	e.open(nil)
	return e
}

func (e *endpoint) open(saved *health.Saved) {
	e.health = health.New("e", e.shared, saved)
	e.series = e.health.OpenSeries(
		result.SeriesID{Endpoint: "e", Module: "interactive", Prefix: "cold"},
		health.SeriesOptions{Interval: e.interval, Timeout: probeTimeout, Objectives: e.judged},
	)
}

// restart is one of the exporter, which keeps its state.
func (e *endpoint) restart() { e.open(e.health.Save()) }

// observe takes a probe, and the scrapes until its end.
func (e *endpoint) observe(p *probe) {
	for e.scrape.Before(p.end) {
		e.now = e.scrape
		e.look()
		e.scrape = e.scrape.Add(scrapeInterval)
	}
	e.now = p.end
	r := &result.Result{Start: p.start, Outcome: p.outcome, Timing: result.Timing{TTFT: 100 * time.Millisecond, TPOT: 20 * time.Millisecond, Duration: p.end.Sub(p.start)}}
	if p.ttft {
		r.Timing.TTFT = 2 * e.judged.TTFT
	}
	if p.tpot {
		r.Timing.TPOT = 2 * e.judged.TPOT
	}
	if p.failed() {
		r.Timing.TTFT, r.Timing.TPOT = result.Absent, result.Absent
	}
	o := series.Observe(r, e.judged, false, p.confirm)
	e.series.Observe(&o)
}

// observeUsers takes what users' requests showed, and the scrapes until then.
func (e *endpoint) observeUsers(r *users.Reading) {
	for e.scrape.Before(r.At) {
		e.now = e.scrape
		e.look()
		e.scrape = e.scrape.Add(scrapeInterval)
	}
	e.now = r.At
	e.health.ObserveUsers(r)
}

// look scrapes the incident that pages. One that becomes another kind is another alert.
func (e *endpoint) look() {
	var kind health.Kind
	if p := e.health.Status().Paging; p != nil {
		kind = p.Kind
		if kind != e.paging {
			e.pages = append(e.pages, page{e.now, p.Start, kind})
		}
	}
	e.paging = kind
}

package main

import (
	"log/slog"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
	probes "github.com/inference-exporter/inference_exporter/internal/result"
	kept "github.com/inference-exporter/inference_exporter/internal/series"
)

// judge is the exporter's own judgement of an endpoint with one module. A
// restart of the exporter begins with a new one.
type judge struct {
	now      time.Time
	endpoint *health.Endpoint
	series   *health.Series
}

func newJudge(e endpoint, now int64) *judge {
	j := &judge{now: time.UnixMilli(now)}
	shared := health.NewShared(func() time.Time { return j.now }, slog.New(slog.DiscardHandler))
	j.endpoint = health.New(e.name, shared, nil)
	j.series = j.endpoint.OpenSeries(
		probes.SeriesID{Endpoint: e.name, Module: "interactive", Prefix: "cold"},
		health.SeriesOptions{Interval: e.interval, Timeout: probeTimeout},
	)
	return j
}

// observe takes a probe that ended.
func (j *judge) observe(r result) {
	j.now = time.UnixMilli(r.end)
	j.series.Observe(&kept.Observation{
		Result: &probes.Result{Start: time.UnixMilli(r.start), Outcome: probes.Outcome(outcomeNames[r.verdict.outcome])},
	})
}

// state returns the state at a time, milliseconds.
func (j *judge) state(t int64) health.State {
	j.now = time.UnixMilli(t)
	return j.endpoint.Status().State
}

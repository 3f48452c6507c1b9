package main

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// scrapeInterval is that of the Prometheus in the simulation.
const scrapeInterval = 15 * time.Second

// The values of the label slo, as the exporter has them.
const (
	sloAvailability = iota
	sloTTFT
	sloTPOT
	sloE2E
	sloCount
)

var sloNames = [sloCount]string{"availability", "ttft", "tpot", "e2e"}

// counters are what the exporter shows of one endpoint's probes.
type counters struct {
	results       [outcomeCount]float64
	eligible, bad [sloCount]float64
	success       float64
	lastRun       float64
	lastSuccess   float64
}

// observe counts a probe as the exporter does. Confirmations and canceled
// probes are in the results and not in the objectives.
func (c *counters) observe(r result) {
	v := r.verdict
	c.results[v.outcome]++
	if v.outcome == outcomeCanceled {
		return
	}
	c.success, c.lastRun = 1, float64(r.start)/1000
	if v.failed() {
		c.success = 0
	} else {
		c.lastSuccess = c.lastRun
	}
	if r.confirm {
		return
	}
	c.count(sloAvailability, v.failed())
	c.count(sloTTFT, v.noToken || v.slowTTFT)
	c.count(sloE2E, v.failed() || v.slowE2E)
	if !v.failed() {
		c.count(sloTPOT, v.slowTPOT)
	}
}

func (c *counters) count(slo int, bad bool) {
	c.eligible[slo]++
	if bad {
		c.bad[slo]++
	}
}

// column is a series under construction: its labels on top of the endpoint's,
// and how to read its value.
type column struct {
	name   string
	labels []string
	read   func(*counters) (float64, bool)
}

// columns lists the series of one endpoint. Outcomes that never occur are left
// out: they would stay at 0.
func columns(objective float64) []column {
	always := func(read func(*counters) float64) func(*counters) (float64, bool) {
		return func(c *counters) (float64, bool) { return read(c), true }
	}
	probe := []string{"module", "interactive", "prefix", "cold"}
	all := []column{
		{"up", nil, always(func(*counters) float64 { return 1 })},
		{"inference_probe_success", probe, func(c *counters) (float64, bool) { return c.success, c.lastRun > 0 }},
		{"inference_probe_last_run_timestamp_seconds", probe, func(c *counters) (float64, bool) { return c.lastRun, c.lastRun > 0 }},
		{"inference_probe_last_success_timestamp_seconds", probe, func(c *counters) (float64, bool) { return c.lastSuccess, c.lastSuccess > 0 }},
	}
	for i, name := range outcomeNames {
		all = append(all, column{"inference_probe_results_total", append(probe[:4:4], "outcome", name), always(func(c *counters) float64 { return c.results[i] })})
	}
	for i, name := range sloNames {
		with := append(probe[:4:4], "slo", name)
		all = append(
			all,
			column{"inference_probe_slo_eligible_total", with, always(func(c *counters) float64 { return c.eligible[i] })},
			column{"inference_probe_slo_bad_total", with, always(func(c *counters) float64 { return c.bad[i] })},
			column{"inference_slo_objective_ratio", with, always(func(*counters) float64 { return objective })},
		)
	}
	return all
}

// scrape puts into the store what a Prometheus would have of an endpoint, with
// a sample each scrapeInterval from the first one until to.
func scrape(s *store, endpoint string, objective float64, results []result, first, to int64) {
	var now counters
	var times []int64
	var states []counters
	for t := first; t < to; t += scrapeInterval.Milliseconds() {
		for len(results) > 0 && results[0].end <= t {
			now.observe(results[0])
			results = results[1:]
		}
		times = append(times, t)
		states = append(states, now)
	}
	for _, c := range columns(objective) {
		b := labels.NewBuilder(labels.FromStrings(c.labels...))
		b.Set(labels.MetricName, c.name)
		b.Set("endpoint", endpoint).Set("model", "llama").Set("job", "inference_exporter").Set("instance", "prober:10115")
		seen := make(samples, 0, len(times))
		for i, t := range times {
			if v, ok := c.read(&states[i]); ok {
				seen = append(seen, sample{t, v})
			}
		}
		s.add(b.Labels(), seen)
	}
}

package main

import (
	"slices"
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
	away          bool // there is no page to scrape
}

// pause is a time, milliseconds, in which the exporter does not probe: it is
// away, and starts again after it, or stays and shows what it had.
type pause struct {
	from, to int64
	stays    bool
}

func (p pause) has(t int64) bool { return t >= p.from && t < p.to }

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

// columns lists the series of one endpoint whose probes have an interval.
// Outcomes that never occur are left out: they would stay at 0.
func columns(objective float64, interval time.Duration) []column {
	always := func(read func(*counters) float64) func(*counters) (float64, bool) {
		return func(c *counters) (float64, bool) { return read(c), !c.away }
	}
	probe := []string{"module", "interactive", "prefix", "cold"}
	all := []column{
		{"up", nil, func(c *counters) (float64, bool) {
			if c.away {
				return 0, true
			}
			return 1, true
		}},
		{"inference_probe_interval_seconds", probe, always(func(*counters) float64 { return interval.Seconds() })},
		{"inference_probe_timeout_seconds", probe, always(func(*counters) float64 { return probeTimeout.Seconds() })},
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

// observed returns the times of the scrapes from the first one until to, and what
// the exporter had at each. Probes that would start in a pause did not run; of
// those that a pause cut off the exporter knows nothing.
func observed(results []result, first, to int64, pauses []pause) ([]int64, []counters) {
	var now counters
	var times []int64
	var states []counters
	for t := first; t < to; t += scrapeInterval.Milliseconds() {
		var current pause
		for _, p := range pauses {
			if p.has(t) {
				current = p
			}
		}
		away := current.has(t) && !current.stays
		if away {
			now = counters{away: true}
		} else {
			now.away = false
		}
		for ; len(results) > 0 && results[0].end <= t; results = results[1:] {
			r := results[0]
			ran := !slices.ContainsFunc(pauses, func(p pause) bool { return p.has(r.start) || !p.stays && p.has(r.end) })
			if ran && !away {
				now.observe(r)
			}
		}
		times = append(times, t)
		states = append(states, now)
	}
	return times, states
}

// scrape puts into the store what a Prometheus would have of an endpoint, with
// a sample each scrapeInterval from the first one until to. What is not on the
// page any more is marked as stale.
func scrape(s *store, e endpoint, results []result, first, to int64) {
	times, states := observed(results, first, to, e.pauses)
	for _, c := range columns(objective, e.interval) {
		b := labels.NewBuilder(labels.FromStrings(c.labels...))
		b.Set(labels.MetricName, c.name)
		b.Set("endpoint", e.name).Set("model", "llama").Set("job", "inference_exporter").Set("instance", "prober:10115")
		seen := make(samples, 0, len(times))
		shown := false
		for i, t := range times {
			v, ok := c.read(&states[i])
			switch {
			case ok:
				seen = append(seen, sample{t, v})
			case shown:
				seen = append(seen, sample{t, staleMark})
			}
			shown = ok
		}
		s.add(b.Labels(), seen)
	}
}

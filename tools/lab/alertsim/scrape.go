package main

import (
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/inference-exporter/inference_exporter/internal/health"
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
	answers       [2]float64 // right and wrong
	success       float64
	lastRun       float64
	lastSuccess   float64
	state         health.State
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
		c.answer(v.wrong)
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

func (c *counters) answer(wrong bool) {
	if wrong {
		c.answers[1]++
	} else {
		c.answers[0]++
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
// Outcomes that never occur are left out: they would stay at 0, and states that no
// rule names.
func columns(objective float64, e endpoint) []column {
	always := func(read func(*counters) float64) func(*counters) (float64, bool) {
		return func(c *counters) (float64, bool) { return read(c), !c.away }
	}
	probe := []string{"module", "interactive", "prefix", "cold"}
	stateIs := func(state health.State) column {
		return column{"inference_endpoint_state", []string{"state", string(state)}, always(func(c *counters) float64 {
			if c.state == state {
				return 1
			}
			return 0
		})}
	}
	all := []column{
		stateIs(health.Down), stateIs(health.Flapping), stateIs(health.Stale), stateIs(health.Waiting),
		{"up", nil, func(c *counters) (float64, bool) {
			if c.away {
				return 0, true
			}
			return 1, true
		}},
		{"inference_probe_interval_seconds", probe, always(func(*counters) float64 { return e.interval.Seconds() })},
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
	if e.questions {
		for i, verdict := range []string{"correct", "wrong"} {
			all = append(all, column{"inference_probe_checks_total", append(probe[:4:4], "verdict", verdict), always(func(c *counters) float64 { return c.answers[i] })})
		}
	}
	return all
}

// observed returns the times of the scrapes from the first one until to, and what
// the exporter had at each. Probes that would start in a pause did not run; of
// those that a pause cut off the exporter knows nothing.
func observed(e endpoint, results []result, first, to int64) ([]int64, []counters) {
	var now counters
	judge := newJudge(e, first)
	var times []int64
	var states []counters
	for t := first; t < to; t += scrapeInterval.Milliseconds() {
		var current pause
		for _, p := range e.pauses {
			if p.has(t) {
				current = p
			}
		}
		away := current.has(t) && !current.stays
		if away {
			now = counters{away: true}
			judge = newJudge(e, t)
		} else {
			now.away = false
		}
		for ; len(results) > 0 && results[0].end <= t; results = results[1:] {
			r := results[0]
			ran := !slices.ContainsFunc(e.pauses, func(p pause) bool { return p.has(r.start) || !p.stays && p.has(r.end) })
			if ran && !away {
				now.observe(r)
				judge.observe(r)
			}
		}
		now.state = judge.state(t)
		times = append(times, t)
		states = append(states, now)
	}
	return times, states
}

// scrape puts into the store what a Prometheus would have of an endpoint, with
// a sample each scrapeInterval from the first one until to. What is not on the
// page any more is marked as stale.
func scrape(s *store, e endpoint, results []result, first, to int64) {
	times, states := observed(e, results, first, to)
	for _, c := range columns(objective, e) {
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

package fleet

import (
	"slices"
	"strconv"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// variant is how the results of one run differ: each has a series of its own.
type variant struct {
	prefix      string
	concurrency int // of a burst; 0 is none
}

func variantOf(r *result.Result) variant { return variant{r.Prefix, r.Concurrency} }

// variantsOf lists what a run of a module consists of; all but the first may be left out after a failure.
func variantsOf(m *config.Module) []variant {
	switch {
	case m.Load != nil: // no probes
		return nil
	case m.Prefix.IsRelated():
		return []variant{{string(config.PrefixCold), 0}, {string(config.PrefixWarm), 0}}
	case m.Bursts() != nil:
		return stats.Map(m.Bursts(), func(n int) variant { return variant{string(m.Prefix), n} })
	}
	return []variant{{string(m.Prefix), 0}}
}

func (v variant) id(of result.SeriesID) result.SeriesID {
	of.Prefix = v.prefix
	if v.concurrency > 0 {
		of.Concurrency = strconv.Itoa(v.concurrency)
	}
	return of
}

// rungSeries are the series of a rung on the page of metrics and on the status page: few, as every task has a set.
type rungSeries []variantSeries

type variantSeries struct {
	variant
	log     *series.Log
	metrics *collector.Series
	// Of probes on request, which say nothing of the state, these are nil.
	page *status.Probes
	// Of bursts, a load of our own making, these are nil, too. The steps are of what asked is a hash of.
	kept  *explain.Series
	steps *series.Steps
	asked uint64
}

func (s rungSeries) of(r *result.Result) *variantSeries {
	return &s[slices.IndexFunc(s, func(v variantSeries) bool { return v.variant == variantOf(r) })]
}

// observe takes a result: metrics, log, and then what reads them: the state, and the page with the state and the window.
func (v *variantSeries) observe(o *series.Observation) {
	v.metrics.Add(o)
	if v.page == nil {
		v.log.Add(o)
		return
	}
	v.page.Observe(o)
	if v.steps != nil && o.IsSample() {
		for _, step := range v.steps.Observe(v.log) {
			v.metrics.SetStep(step)
			v.page.AddStep(step)
		}
	}
}

// wait counts a user who came while a probe waited for its first token, and waited so long; negative: it did not come.
func (v *variantSeries) wait(at time.Time, wait, limit time.Duration) {
	bad := wait < 0 || wait > limit
	v.log.AddWait(at, wait, bad)
	v.metrics.CountWait(wait, bad)
}

// openSeries puts the series of a target on the page of metrics alone, as those of probes on request.
func openSeries(e *collector.Endpoint, t Target) rungSeries {
	var all rungSeries
	for i, v := range variantsOf(t.Module) {
		all = append(all, variantSeries{variant: v, log: new(series.Log)})
		all[i].openMetrics(e, t, i == 0)
	}
	return all
}

// openSeries puts the series of the task on the pages and makes them part of the state of the endpoint; first means
// that the endpoint's numbers on the status page are theirs. They go on with what is known of the past.
func (t *task) openSeries(first bool, past *past) rungSeries {
	var all rungSeries
	for i, v := range variantsOf(t.Module) {
		of, id := variantSeries{variant: v, asked: t.findings.asked}, v.id(t.id())
		of.page = t.endpoint.page.OpenSeries(id, health.SeriesOptions{
			Interval: time.Duration(t.Interval), Timeout: time.Duration(t.Timeout), Objectives: t.objectives(), First: first && i == 0,
		}, past.series[id])
		of.log = of.page.Log
		of.openMetrics(t.endpoint.metrics, t.Target, i == 0)
		if v.concurrency == 0 {
			of.kept = &explain.Series{Title: titleOf(id, t.Module), Objectives: t.objectives(), Log: of.log, Steps: of.page.Steps}
			t.endpoint.series = append(t.endpoint.series, of.kept)
			if of.steps = past.learnedOf(id, of.asked).Steps; of.steps == nil {
				of.steps = new(series.Steps)
			}
			for _, step := range of.steps.Latest {
				of.metrics.SetStep(step)
			}
		}
		all = append(all, of)
	}
	return all
}

// openMetrics puts the series on the page of metrics. The first of a target never misses its interval.
func (v *variantSeries) openMetrics(e *collector.Endpoint, t Target, first bool) {
	o := collector.SeriesOptions{
		Kind: KindOf(t.Endpoint, t.Module), Price: t.Endpoint.Price, Calls: prober.KindOf(t.Module).Calls,
		Objectives: t.objectives(), Log: v.log,
	}
	if t.ChecksAnswers() {
		o.Verdicts = prober.KindOf(t.Module).Verdicts
	}
	if first {
		o.Interval, o.Timeout = time.Duration(t.Interval), time.Duration(t.Timeout)
	}
	v.metrics = e.Open(v.id(t.id()), o)
}

// KindOf is what the answers of an endpoint to a module are, as far as configured; "" is not known before a probe.
func KindOf(e *config.Endpoint, m *config.Module) api.Kind {
	if prober.KindOf(m).Scores {
		return api.Scoring
	}
	if e.API == "" {
		return ""
	}
	configured, _ := api.Lookup(e.API)
	return configured.Kind
}

// countWaiting counts the users who came while the results of a run waited for their first token: at the instants at
// which a probe was due while that one still ran. It is not started then, but a user who comes waits as well.
func (t *task) countWaiting(results []*result.Result, counts bool) {
	due := t.due
	t.due = nil
	if !counts {
		return
	}
	limit := t.promised.TTFT
	for _, at := range due {
		for _, r := range results {
			if wait, ok := waited(r, at, limit); ok {
				t.series.of(r).wait(at, wait, limit)
				break
			}
		}
	}
}

// waited returns how long a user who came at an instant waited for a first token, if the probe waited for its own then:
// until that token came, as the server was frozen for both. Where the probe was given up without one it is
// result.Absent, no token, unless the user had not yet waited for longer than limit: whether the wait would have been
// too long is not known.
func waited(r *result.Result, at time.Time, limit time.Duration) (time.Duration, bool) {
	if at.Before(r.Start) || r.Imprecise || r.Outcome == result.Canceled {
		return 0, false
	}
	if r.Timing.TTFT >= 0 {
		wait := r.Sent.Add(r.Timing.TTFT).Sub(at)
		return wait, wait > 0
	}
	end := r.Start.Add(max(0, r.Timing.Duration))
	return result.Absent, r.Outcome != result.Success && end.Sub(at) > limit
}

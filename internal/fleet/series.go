package fleet

import (
	"slices"
	"strconv"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/estimate"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// variant is how the results of one run differ: each has a series of its
// own.
type variant struct {
	prefix      string
	concurrency int // of a burst; 0 is none
}

// variantOf is the variant that a result belongs to.
func variantOf(r *result.Result) variant { return variant{r.Prefix, r.Concurrency} }

// variantsOf lists what the runs of a module consist of; the first one is
// always asked, the others may be left out after a failure.
func variantsOf(m *config.Module) []variant {
	switch {
	case m.Prefix.IsRelated():
		return []variant{{string(config.PrefixCold), 0}, {string(config.PrefixWarm), 0}}
	case len(m.Concurrency) > 0:
		var all []variant
		for _, n := range m.Concurrency {
			all = append(all, variant{string(m.Prefix), n})
		}
		return all
	}
	return []variant{{string(m.Prefix), 0}}
}

// id is that of the variant's series, given that of the task.
func (v variant) id(of result.SeriesID) result.SeriesID {
	of.Prefix = v.prefix
	if v.concurrency > 0 {
		of.Concurrency = strconv.Itoa(v.concurrency)
	}
	return of
}

// rungSeries are the series of a rung on the page of metrics and on the status page:
// few, for there is a set in every task.
type rungSeries []variantSeries

type variantSeries struct {
	variant
	metrics *collector.Series
	// Of probes on request, which say nothing of the state, these are nil.
	health *health.Series
	status *status.Probes
	// steps is nil for bursts, too, which are a load of our own making.
	steps *estimate.Steps
}

// of returns the series that a result belongs to.
func (s rungSeries) of(r *result.Result) variantSeries {
	return s[slices.IndexFunc(s, func(v variantSeries) bool { return v.variant == variantOf(r) })]
}

// Observe implements Observer. A confirmation of a failure is not judged, nor is what ran
// beside a burst of ours, which is slow by our own doing.
func (s rungSeries) Observe(o *Observation) {
	of := s.of(o.Result)
	switch {
	case o.Disturbed:
		of.metrics.ObserveDisturbed(o.Result)
	case o.Confirmation:
		of.metrics.ObserveConfirmation(o.Result)
	default:
		of.metrics.Observe(o.Result)
		of.judge(o.Result)
	}
	if of.health != nil {
		of.show(o)
	}
	if of.steps != nil && !o.Disturbed && !o.Confirmation {
		for _, step := range of.steps.Observe(o.Result, o.Timed()) {
			of.metrics.SetStep(step)
			of.status.AddStep(step)
		}
	}
}

// show adds a result to the state of the endpoint, and then to its page, which shows the
// state and the window.
func (v *variantSeries) show(o *Observation) {
	v.health.Observe(o.Result, !o.Timed())
	if o.Timed() {
		v.status.Observe(o.Result)
	} else {
		v.status.ObserveUntimed(o.Result)
	}
}

// judge counts a result against the objectives and for the uptime.
func (v *variantSeries) judge(r *result.Result) {
	j := v.metrics.Judge(r)
	if v.status != nil {
		v.status.Judge(r, status.Judgement(j))
	}
}

// wait counts a user who came at an instant, while a probe waited for its first token, and
// waited so long for one; negative is a token that did not come.
func (v *variantSeries) wait(at time.Time, wait time.Duration) {
	bad := v.metrics.JudgeWaiting(at, wait)
	if v.status != nil {
		v.status.JudgeWaiting(at, bad)
	}
}

// openSeries puts the series of a target on the page of metrics.
func openSeries(p *collector.Probes, t Target) rungSeries {
	o := collector.SeriesOptions{
		Labels: t.Endpoint.Labels, Kind: KindOf(t.Endpoint, t.Module), Price: t.Endpoint.Price, Verdicts: verdictsOf(t.Module), Calls: t.ToolCall,
	}
	if t.Judged() {
		o.SLO = new(t.Endpoint.SLOWith(t.Module))
	}
	variants := variantsOf(t.Module)
	all := make(rungSeries, 0, len(variants))
	for i, v := range variants {
		o.Interval, o.Timeout = 0, 0
		if i == 0 { // the one that never misses its interval
			o.Interval, o.Timeout = time.Duration(t.Interval), time.Duration(t.Timeout)
		}
		all = append(all, variantSeries{variant: v, metrics: p.Open(v.id(t.id()), o)})
	}
	return all
}

// judge makes the series part of the state of the endpoint, and puts them on the status
// page; first means that the endpoint's numbers are those of the first of them.
func (s rungSeries) judge(m *health.Monitor, b *status.Board, t Target, first bool) {
	for i := range s {
		if s[i].concurrency == 0 {
			s[i].steps = new(estimate.Steps)
		}
		metrics := s[i].metrics
		id := s[i].id(t.id())
		s[i].health = m.OpenSeries(id, health.SeriesOptions{
			Interval: time.Duration(t.Interval), Timeout: time.Duration(t.Timeout),
			Objectives: objectivesOf(t), First: first && i == 0,
		})
		s[i].status = b.OpenSeries(id, status.SeriesOptions{
			Health: s[i].health,
			Pace:   status.Pace{Interval: time.Duration(t.Interval).Seconds(), Timeout: time.Duration(t.Timeout).Seconds()},
			SLO:    statusSLO(t),
			Window: func() *status.Window { return statusWindow(metrics) },
			First:  first && i == 0,
		})
	}
}

// objectivesOf returns the objectives of a target; none where its probes are not judged.
func objectivesOf(t Target) health.Objectives {
	if !t.Judged() {
		return health.Objectives{}
	}
	slo := t.Endpoint.SLOWith(t.Module)
	return health.Objectives{TTFT: time.Duration(slo.TTFT), TPOT: time.Duration(slo.TPOT), E2E: time.Duration(slo.E2E)}
}

// statusSLO returns the objectives of a target; nil where its
// probes are not judged.
func statusSLO(t Target) *status.SLO {
	if !t.Judged() {
		return nil
	}
	slo := t.Endpoint.SLOWith(t.Module)
	seconds := func(d time.Duration) *float64 {
		if d == 0 {
			return nil
		}
		return new(d.Seconds())
	}
	all := &status.SLO{
		Objective: slo.Objective, TTFT: seconds(time.Duration(slo.TTFT)),
		TPOT: seconds(time.Duration(slo.TPOT)), E2E: seconds(time.Duration(slo.E2E)),
	}
	if slo.Fluidity > 0 {
		all.Fluidity = new(slo.Fluidity)
	}
	return all
}

// statusWindow returns the estimates from the last hour's probes; nil if there were none.
func statusWindow(s *collector.Series) *status.Window {
	w := s.TTFTWindow()
	if w == nil || w.Samples == 0 {
		return nil
	}
	return (*status.Window)(w)
}

// verdictsOf lists the verdicts that the answers to a module may have; nil where they
// are not checked.
func verdictsOf(m *config.Module) []result.Verdict {
	switch {
	case m.ToolCall:
		return result.ToolCallVerdicts()
	case m.Structured:
		return result.StructuredVerdicts()
	case m.ChecksAnswers():
		return result.AnswerVerdicts()
	}
	return nil
}

// KindOf is what the answers of an endpoint to a module are, as far as the
// configuration shows; "" is not known before a probe.
func KindOf(e *config.Endpoint, m *config.Module) api.Kind {
	if m.ReferenceLogprob {
		return api.Scoring
	}
	if e.API == "" {
		return ""
	}
	configured, _ := api.Lookup(e.API)
	return configured.Kind
}

package app

import (
	"slices"
	"strconv"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/status"
)

// variant is what tells the results of one run apart: each has a series of its
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
	case m.Prefix == config.PrefixPaired:
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

// rungID is what all series of a rung have in common.
func rungID(e *config.Endpoint, module string, r config.Rung) result.SeriesID {
	return result.SeriesID{Endpoint: e.Name, Module: module, InputTokens: r.InputLabel, OutputTokens: r.OutputLabel}
}

// seriesOf are the series of a rung: few, for there is a set in every task.
type seriesOf []variantSeries

type variantSeries struct {
	variant
	*collector.Series
	shown *status.Probes // nil where there is no status page
}

// of returns the series that a result belongs to.
func (s seriesOf) of(r *result.Result) variantSeries {
	return s[slices.IndexFunc(s, func(v variantSeries) bool { return v.variant == variantOf(r) })]
}

// openSeries puts the series of a rung on the page.
func openSeries(p *collector.Probes, e *config.Endpoint, m *config.Module, id result.SeriesID) seriesOf {
	o := collector.SeriesOptions{Labels: e.Labels, Kind: kindOf(e, m), Price: e.Price, ChecksAnswers: m.ChecksAnswers()}
	if m.Judged() {
		o.SLO = new(e.SLOWith(m))
	}
	variants := variantsOf(m)
	all := make(seriesOf, 0, len(variants))
	for i, v := range variants {
		o.Interval, o.Timeout = 0, 0
		if i == 0 { // the one that never misses its interval
			o.Interval, o.Timeout = time.Duration(m.Interval), time.Duration(m.Timeout)
		}
		all = append(all, variantSeries{variant: v, Series: p.Open(v.id(id), o)})
	}
	return all
}

// closeSeries takes them off the page.
func closeSeries(p *collector.Probes, m *config.Module, id result.SeriesID) {
	for _, v := range variantsOf(m) {
		p.Remove(v.id(id))
	}
}

// kindOf is what the answers of an endpoint to a module are, as far as the
// configuration tells.
func kindOf(e *config.Endpoint, m *config.Module) api.Kind {
	if m.ReferenceLogprob {
		return api.Scoring
	}
	if e.API == "" {
		return ""
	}
	configured, _ := api.Lookup(e.API)
	return configured.Kind
}

package collector

import (
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/estimate"
)

// FindingsID identifies the findings of one endpoint and
// module.
type FindingsID struct {
	// Endpoint and Module are the values of the labels of that name.
	Endpoint, Module string
	// Labels are the configured labels, as in SeriesOptions. They must not be changed
	// afterwards.
	Labels map[string]string
}

// key returns a string that is equal for equal IDs only.
func (id FindingsID) key() string { return labelsKey(id.Labels, id.Endpoint, id.Module) }

// FindingsSeries shows the findings of one endpoint and
// module: nothing until there are findings.
type FindingsSeries struct {
	store   *Probes
	id      FindingsID
	current atomic.Pointer[findingsValues] // nil without findings
}

// findingsValues is the state behind the samples of findings. It is immutable.
type findingsValues struct {
	*estimate.Findings
	model   string // as in block
	block   *labelBlock
	created time.Time
	bursts  []*labelBlock // by index in Bursts
	turns   []*labelBlock // by index in Turns
}

// Findings returns the series of id, which it creates if there is none.
func (p *Probes) Findings(id FindingsID) *FindingsSeries {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := id.key()
	if s, ok := p.findings[key]; ok {
		return s
	}
	s := &FindingsSeries{store: p, id: id}
	p.findings[key] = s
	return s
}

// RemoveFindings takes the series of id off the page. What is set in it later
// is lost.
func (p *Probes) RemoveFindings(id FindingsID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.findings, id.key())
	p.changed()
}

// Set shows findings, which must not be changed afterwards; nil shows none. Its
// calls must come one after the other, in the order in which the findings were
// made: with older ones the counters would fall. The counters of another model
// start again.
func (s *FindingsSeries) Set(f *estimate.Findings) {
	if f == nil {
		if s.current.Swap(nil) != nil {
			s.store.stale.Store(true)
		}
		return
	}
	next := &findingsValues{Findings: f, model: boundModel(f.Model), created: s.store.now()}
	before := s.current.Load()
	same := before != nil && before.model == next.model
	if same || before != nil && before.model == "" {
		next.created = before.created
	}
	if same {
		next.block = before.block
	} else {
		next.block = s.labels(next.model, "")
	}
	for _, b := range f.Bursts {
		next.bursts = append(next.bursts, s.labels(next.model, strconv.Itoa(b.Concurrency)))
	}
	for i := range f.Turns {
		next.turns = append(next.turns, s.turnLabels(next.model, &f.Turns[i]))
	}
	s.current.Store(next)
	if !same {
		s.store.stale.Store(true)
	}
}

// labels renders the labels of the series, or of one of its bursts.
func (s *FindingsSeries) labels(model, concurrency string) *labelBlock {
	return s.store.labels.block([]pair{
		{"endpoint", s.id.Endpoint}, {"model", model}, {"module", s.id.Module}, {"concurrency", concurrency},
	}, s.id.Labels)
}

// latest returns what the series show now. All families of a page come from the
// same findings.
func latest(all []*FindingsSeries) []labelled[*findingsValues] {
	out := make([]labelled[*findingsValues], 0, len(all))
	for _, s := range all {
		if v := s.current.Load(); v != nil {
			out = append(out, labelled[*findingsValues]{v.block, v})
		}
	}
	return out
}

// findingsFamily is a family of findings.
type findingsFamily = familyOf[*findingsValues]

// findingsFamilies returns the families of findings in the order of the
// documentation.
func findingsFamilies() []*findingsFamily {
	all := prefillFamilies()
	all = append(all, reuseFamilies()...)
	all = append(all, burstFamilies()...)
	all = append(all, turnFamilies()...)
	all = append(all, trafficFamilies()...)
	all = append(all, changeFamilies()...)
	all = append(all, integrityFamilies()...)
	return append(all, driftFamilies()...)
}

// prefillFamilies are what a prompt costs by its length.
func prefillFamilies() []*findingsFamily {
	return []*findingsFamily{
		intervalFamily("prefill_tokens_per_second", "tokens_per_second",
			"Prompt tokens that the endpoint processes per second, estimated from how TTFT grows with the number of uncached prompt tokens. lower and upper are bounds with 95 % confidence. Absent with too few probes or lengths, and where TTFT does not grow linearly with the length.",
			func(f *estimate.Findings) *estimate.Interval {
				if f.Prefill == nil {
					return nil
				}
				return &f.Prefill.TokensPerSecond
			}),
		intervalFamily("ttft_fixed_seconds", "seconds",
			"Part of TTFT that does not depend on the length of the prompt: network, queue and first decoding step. lower and upper are bounds with 95 % confidence. Absent where inference_probe_prefill_tokens_per_second is.",
			func(f *estimate.Findings) *estimate.Interval {
				if f.Prefill == nil {
					return nil
				}
				return &f.Prefill.FixedSeconds
			}),
	}
}

// reuseFamilies are what the prefix cache is worth.
func reuseFamilies() []*findingsFamily {
	return []*findingsFamily{
		findingsGauge("prefix_cache_hit_ratio", "ratio",
			"Ratio of prompt tokens of warm probes that were read from the prefix cache, as reported in the replies. Absent if replies do not report it, and if all report 0 although the second probe of a pair is faster by a quarter or more, which only a cache explains, or while there are too few pairs to decide.",
			func(f *estimate.Findings) gauge { return known(f.HitRatio) }),
		intervalFamily("prefix_benefit_seconds", "seconds",
			"Time saved by sending the same prompt again: TTFT of the first probe of a pair minus TTFT of the second. lower and upper are bounds with 95 % confidence; if both are above 0, the cache helps. Only for prefix: paired; absent with too few pairs.",
			func(f *estimate.Findings) *estimate.Interval { return f.Benefit }),
		newFindingsFamily(Family{
			Name: "cold_cached_total", Type: Counter,
			Help: "Cold probes with prompt tokens read from the prefix cache, as reported in the replies. Expected to be 0: anything else is a fault of the prober or of the server's count. Absent until a reply to a cold probe reports cached tokens or their absence, and while prefix_cache_hit_ratio is absent because the replies are implausible.",
		}, func(e encoder, _ *family, v *findingsValues) {
			if v.ColdTold {
				e.labels(v.block, v.created)
				e.counter(0, float64(v.ColdCached))
			}
		}),
	}
}

// burstFamilies are the results of requests that start together, or by an arrival process.
func burstFamilies() []*findingsFamily {
	return []*findingsFamily{
		burstGauge("failed", "",
			"Requests of the burst that failed in the latest run. A burst with an error is the last of its run, so larger bursts are absent.",
			func(b *estimate.Burst) gauge { return gauge{float64(b.Failed), true} }),
		burstGauge("output_tokens_per_second", "tokens_per_second",
			"Output tokens of all requests of the burst divided by the time from the first start to the last end, in the latest run.",
			func(b *estimate.Burst) gauge { return gauge{b.TokensPerSecond, b.TokensPerSecond > 0} }),
		burstGauge("start_spread_seconds", "seconds",
			"Time from the start of the first request of the burst to the start of the last, in the latest run. Ideally 0: the larger it is, the less simultaneous the requests were.",
			func(b *estimate.Burst) gauge { return gauge{b.StartSpread.Seconds(), b.StartSpread >= 0} }),
		findingsGauge("burst_knee_concurrency", "",
			"Size of the smallest burst of the latest run that missed the objectives: the endpoint handles fewer concurrent requests. Absent if all bursts meet them.",
			func(f *estimate.Findings) gauge {
				if f.Knee == nil {
					return gauge{}
				}
				return gauge{float64(f.Knee.Concurrency), true}
			}),
		findingsGauge("burst_knee_tokens_per_second", "tokens_per_second",
			"Output tokens per second of the burst of inference_probe_burst_knee_concurrency.",
			func(f *estimate.Findings) gauge {
				if f.Knee == nil {
					return gauge{}
				}
				return gauge{f.Knee.TokensPerSecond, f.Knee.TokensPerSecond > 0}
			}),
		findingsGauge("burst_carried_concurrency", "",
			"Size of the largest burst of the latest run that met the objectives, as all smaller ones did: the endpoint handles at least so many concurrent requests beside its load. Absent without an objective, and if the smallest burst missed it.",
			func(f *estimate.Findings) gauge {
				if f.Carried == nil {
					return gauge{}
				}
				return gauge{float64(f.Carried.Concurrency), true}
			}),
		findingsGauge("burst_carried_tokens_per_second", "tokens_per_second",
			"Output tokens per second of the burst of inference_probe_burst_carried_concurrency.",
			func(f *estimate.Findings) gauge {
				if f.Carried == nil {
					return gauge{}
				}
				return gauge{f.Carried.TokensPerSecond, f.Carried.TokensPerSecond > 0}
			}),
		arrivalsFamily(),
	}
}

// arrivalsFamily tells bursts whose requests start one after the other from those whose
// requests start together.
func arrivalsFamily() *findingsFamily {
	return newFindingsFamily(Family{
		Name: "arrivals_per_second", Type: Gauge, Labels: []string{"kind"}, Values: labelValues(config.ArrivalProcesses()),
		Help: "Requests of a run that start per second on average, by the configuration, if they start one after the other instead of all at once: by a Poisson process (poisson) or a recording (recorded). Only for modules with arrivals.",
	}, func(e encoder, f *family, v *findingsValues) {
		if v.Arrivals == nil {
			return
		}
		for _, i := range f.order {
			if f.Values[i] == string(v.Arrivals.Process) {
				e.gauge(i, v.Arrivals.PerSecond())
			}
		}
	})
}

// changeFamilies count changes of what should stay the same.
func changeFamilies() []*findingsFamily {
	sources := labelValues(estimate.Sources())
	return append(shiftFamilies(), []*findingsFamily{
		findingsGauge("reference_logprob", "",
			"Mean log-probability in nats per token that the model assigned to the reference passage in the latest probe. It is constant for the same model with the same weights and arithmetic. Only for modules with reference_logprob.",
			func(f *estimate.Findings) gauge { return known(f.Logprob) }),
		newFindingsFamily(Family{
			Name: "fingerprint_changes_total", Type: Counter, Labels: []string{"source"}, Values: sources,
			Help: "Changes of properties that should be constant: the answer to a fixed prompt (answer), the system (system_fingerprint) or the model (model) named in the reply, the score of the reference passage (logprob), of answers to prompts of one word the first tokens (first_token) or their log-probabilities (first_token_logprob), and the vectors (embedding) or scores (rerank) of the reference texts. Absent for sources that the endpoint does not provide.",
		}, func(e encoder, f *family, v *findingsValues) {
			e.labels(v.block, v.created)
			for _, i := range f.order {
				if v.Watched[i] {
					e.counter(i, float64(v.Changes[i]))
				}
			}
		}),
		newFindingsFamily(Family{
			Name: "fingerprint_last_change_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"source"}, Values: sources,
			Help: "Unix time of the latest change counted by inference_probe_fingerprint_changes_total. Absent before the first change.",
		}, func(e encoder, f *family, v *findingsValues) {
			for _, i := range f.order {
				if g := timeGauge(v.LastChange[i]); v.Watched[i] && g.present {
					e.gauge(i, g.value)
				}
			}
		}),
	}...)
}

// newFindingsFamily returns a family with the labels of every family of
// findings. f.Name comes without "probe_".
func newFindingsFamily(f Family, emit func(e encoder, f *family, v *findingsValues)) *findingsFamily {
	f.Name, f.Group = "probe_"+f.Name, GroupProbe
	return &findingsFamily{newFamily(f, []string{"endpoint", "model", "module"}, nil), emit}
}

// findingsGauge returns a family of one gauge for each series.
func findingsGauge(name, unit, help string, get func(f *estimate.Findings) gauge) *findingsFamily {
	return newFindingsFamily(Family{Name: name, Type: Gauge, Unit: unit, Help: help},
		func(e encoder, _ *family, v *findingsValues) { emitFinite(e, 0, get(v.Findings)) })
}

// intervalFamily returns a family of an estimate and its bounds; get returns
// nil where there is none.
func intervalFamily(name, unit, help string, get func(f *estimate.Findings) *estimate.Interval) *findingsFamily {
	stats := []string{"estimate", "lower", "upper"}
	return newFindingsFamily(Family{Name: name, Type: Gauge, Unit: unit, Labels: []string{"stat"}, Values: stats, Help: help},
		func(e encoder, f *family, v *findingsValues) {
			interval := get(v.Findings)
			if interval == nil {
				return
			}
			all := [...]float64{interval.Value, interval.Lower, interval.Upper}
			for _, i := range f.order {
				emitFinite(e, i, gauge{all[i], true})
			}
		})
}

// burstGauge returns a family of one gauge for each burst of the latest run.
func burstGauge(name, unit, help string, get func(b *estimate.Burst) gauge) *findingsFamily {
	f := Family{Name: "probe_burst_" + name, Group: GroupProbe, Type: Gauge, Unit: unit, Help: help}
	return &findingsFamily{
		newFamily(f, []string{"endpoint", "model", "module", "concurrency"}, nil),
		func(e encoder, _ *family, v *findingsValues) {
			for i := range v.Bursts {
				e.labels(v.bursts[i], v.created)
				emitFinite(e, 0, get(&v.Bursts[i]))
			}
		},
	}
}

// known returns the gauge of a value; nil is not known.
func known(v *float64) gauge {
	if v == nil {
		return gauge{}
	}
	return gauge{*v, true}
}

// emitFinite encodes a gauge whose value is a number: a bound may be open.
func emitFinite(e encoder, own int, g gauge) {
	if g.present && !math.IsNaN(g.value) && !math.IsInf(g.value, 0) {
		e.gauge(own, g.value)
	}
}

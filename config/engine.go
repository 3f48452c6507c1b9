package config

import "reflect"

// Engine says how to read the metrics page of one server software: which of its
// series hold which quantity. One with the name of a built-in mapping changes
// only what it writes: a list or a plain value replaces the built-in one, and
// in a mapping only the keys that are written change.
type Engine struct {
	// Sentinels are series, any of which tells that a page is this engine's.
	// Default: those of the built-in mapping; a new one needs at least one.
	Sentinels []string `yaml:"sentinels,omitempty"`
	// Fallback says whether the page may hold the series of another engine too,
	// which are then the better ones to read.
	Fallback bool `yaml:"fallback,omitempty"`
	// Pages are where the page may be, in the order to try: a path, or a port
	// and a path as in `:8002/metrics`. Default: that of the built-in mapping,
	// `/metrics` in a new one.
	Pages []string `yaml:"pages,omitempty"`
	// Setup is text for the documentation: what makes the software show the
	// page, and what that costs.
	Setup string `yaml:"setup,omitempty"`
	// Notes is text for the documentation: what to know of the values.
	Notes string `yaml:"notes,omitempty"`
	// ModelLabel is the label with the name of the model. Samples of other
	// models than the endpoint's do not count where the page has samples of it,
	// or of more than one other model.
	ModelLabel string `yaml:"model_label,omitempty"`
	// Labels restrict all samples: one that has the label must have this
	// value. An empty value excludes all samples that have the label set.
	Labels map[string]string `yaml:"labels,omitempty"`
	// Copies are labels whose values tell apart copies of the same thing, such
	// as the ranks of tensor parallelism or the processes of a front end: of
	// samples that differ only in these, the largest counts.
	Copies []string `yaml:"copies,omitempty"`
	// Expected are quantities of any kind that every page of this engine shows.
	// One that is missing is reported, as it was probably renamed.
	Expected []Quantity `yaml:"expected,omitempty"`
	// ExpectedAfterWork are quantities that every page of this engine shows
	// once the server has generated tokens and ended a request; before that,
	// one that is missing is not reported. `queue` is expected after requests
	// were seen to wait, `inter_token` and `tpot` after an answer of more than
	// one token.
	ExpectedAfterWork []Quantity `yaml:"expected_after_work,omitempty"`
	// Progress are series that move while the engine works, not only when a
	// request ends. Without one, nothing is said of the engine's progress.
	Progress []EngineSource `yaml:"progress,omitempty"`
	// Values are the sources of each quantity that is one number, the better
	// one first; the first that a page has is used. An empty list leaves the
	// quantity out.
	Values map[Quantity][]EngineSource `yaml:"values,omitempty"`
	// Histograms are the sources of each distribution, in the same way.
	Histograms map[Quantity][]EngineHistogram `yaml:"histograms,omitempty"`
	// PrefixCache are the sources of the hits of the prefix cache, in the same
	// way.
	PrefixCache []EnginePrefixCache `yaml:"prefix_cache,omitempty"`
	// Requests are the series of ended requests; all of them are added.
	Requests []EngineRequests `yaml:"requests,omitempty"`
}

// The ways to make one number of several samples.
const (
	CombineSum = "sum"
	CombineMax = "max"
)

// EngineSource is where a number stands on a page.
type EngineSource struct {
	// Series is the name of the samples, with the suffix of a part of a
	// histogram where it is one. `a:b` also finds `a_b` and `ray_a_b`; a
	// counter is found with and without `_total`. Required.
	Series string `yaml:"series"`
	// Labels restrict the samples to those with these values.
	Labels map[string]string `yaml:"labels,omitempty"`
	// FromLabel takes the number from the value of this label instead of from
	// that of the sample.
	FromLabel string `yaml:"from_label,omitempty"`
	// Combine is how several samples make one number, `sum` or `max`. Default:
	// `max` for a ratio, for `context_length_tokens` and under `times`, `sum`
	// for all else.
	Combine string `yaml:"combine,omitempty"`
	// Scale is what the number is multiplied with to be in the unit of the
	// quantity, above 0. Default: 1.
	Scale float64 `yaml:"scale,omitempty"`
	// Plus is a source whose number is added where the page has it. Of sources
	// of one series with other labels it is enough that the page has any.
	Plus *EngineSource `yaml:"plus,omitempty"`
	// Times is a source whose number is multiplied with; where the page does
	// not have it there is no number.
	Times *EngineSource `yaml:"times,omitempty"`
}

// EngineHistogram is where a distribution of durations stands on a page: a
// histogram, or the sum and the number of what was measured.
type EngineHistogram struct {
	// Series is the name of the histogram.
	Series string `yaml:"series,omitempty"`
	// Sum is the name of the counter that adds up the durations, for an engine
	// that has no histogram: it gives one without bounds.
	Sum string `yaml:"sum,omitempty"`
	// Count is the name of the counter of the durations in the sum.
	Count string `yaml:"count,omitempty"`
	// Labels restrict the samples to those with these values.
	Labels map[string]string `yaml:"labels,omitempty"`
	// Scale is what the durations are multiplied with to be in seconds, above
	// 0. Default: 1.
	Scale float64 `yaml:"scale,omitempty"`
}

// EnginePrefixCache is where the hits of the prefix cache stand on a page.
type EnginePrefixCache struct {
	// Hits is the source of the counter of what the cache had. Required.
	Hits EngineSource `yaml:"hits"`
	// Queries is the source of the counter of what the cache was asked for, in
	// the same unit. Required.
	Queries EngineSource `yaml:"queries"`
	// Unit is what they count: `tokens`, `blocks` or `requests`. Required.
	Unit string `yaml:"unit"`
	// Late tells that the counter of hits appears with the first hit: a page
	// with queries alone then has no hits, and is else not read for them.
	// Default: false.
	Late bool `yaml:"late,omitempty"`
	// LateBehindRay tells the same of pages that spell the queries with `ray_`:
	// Ray shows no counter before it counts. Default: false.
	LateBehindRay bool `yaml:"late_behind_ray,omitempty"`
}

// EngineRequests is where a number of ended requests stands on a page.
type EngineRequests struct {
	// Series is the name of the counters, found as in a source. Required.
	Series string `yaml:"series"`
	// Labels restrict the samples to those with these values.
	Labels map[string]string `yaml:"labels,omitempty"`
	// By are the names that the label has which tells how a request ended.
	By []string `yaml:"by,omitempty"`
	// As maps a value of that label to how a request ended: `stop`, `length`,
	// `abort`, `error`, `success`, `other` or `unknown`.
	As map[string]string `yaml:"as,omitempty"`
	// Else is how the requests ended that `as` does not tell of. Default: `unknown` without
	// `by`, else `other`.
	Else string `yaml:"else,omitempty"`
}

// ParseEngine reads one mapping from data: a file that holds what stands under
// the name of a mapping in the section `engines`. Errors are as those of Parse.
func ParseEngine(data []byte, name string) (*Engine, error) {
	r := newReport(name)
	e := new(Engine)
	if root := parseYAML(data, "sentinels", r); root != nil {
		d := &decoder{report: r, keys: map[reflect.Type]map[string][]int{}}
		d.value(root, "", reflect.ValueOf(e).Elem())
		if !r.failed[""] {
			e.setDefaults(r, "")
			e.validate(r, "")
		}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return e, nil
}

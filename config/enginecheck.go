package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// validate checks what can be told from the mapping alone: as it may change a
// built-in one, it need not be whole.
func (e *Engine) validate(r *report, p path) {
	validateList(r, p.key("sentinels"), len(e.Sentinels))
	for i, s := range e.Sentinels {
		validateSeries(r, p.key("sentinels").index(i), s)
	}
	validateList(r, p.key("pages"), len(e.Pages))
	for i, s := range e.Pages {
		if !isPage(s) { // not repeated: it may be a URL with a password
			r.errorf(p.key("pages").index(i), "want a path like /metrics, or a port and a path like :8002/metrics")
		}
	}
	if r.written(p.key("model_label")) {
		validateLabelName(r, p.key("model_label"), e.ModelLabel)
	}
	validateSelector(r, p.key("labels"), e.Labels)
	validateList(r, p.key("copies"), len(e.Copies))
	for i, name := range e.Copies {
		validateLabelName(r, p.key("copies").index(i), name)
	}
	validateQuantities(r, p.key("expected"), e.Expected)
	validateQuantities(r, p.key("expected_after_work"), e.ExpectedAfterWork)
	validateList(r, p.key("progress"), len(e.Progress))
	for i := range e.Progress {
		e.Progress[i].validate(r, p.key("progress").index(i))
	}
	e.validateValues(r, p.key("values"))
	e.validateHistograms(r, p.key("histograms"))
	e.validatePrefixCache(r, p.key("prefix_cache"))
	e.validateRequests(r, p.key("requests"))
}

func (e *Engine) validateValues(r *report, p path) {
	for _, q := range slices.Sorted(maps.Keys(e.Values)) {
		at := p.key(string(q))
		validateQuantity(r, at, q, Numbers())
		for i := range e.Values[q] {
			e.Values[q][i].validate(r, at.index(i))
		}
	}
}

func (e *Engine) validateHistograms(r *report, p path) {
	for _, q := range slices.Sorted(maps.Keys(e.Histograms)) {
		at := p.key(string(q))
		validateQuantity(r, at, q, Distributions())
		for i := range e.Histograms[q] {
			e.Histograms[q][i].validate(r, at.index(i))
		}
	}
}

func (e *Engine) validatePrefixCache(r *report, p path) {
	validateList(r, p, len(e.PrefixCache))
	for i := range e.PrefixCache {
		at, c := p.index(i), &e.PrefixCache[i]
		if r.failed[at] {
			continue
		}
		c.Hits.validate(r, at.key("hits"))
		c.Queries.validate(r, at.key("queries"))
		validateOneOf(r, at.key("unit"), c.Unit, PrefixCacheUnits()...)
		if c.Late && c.LateBehindRay {
			r.errorf(at.key("late_behind_ray"), "means nothing with late")
		}
	}
}

func (e *Engine) validateRequests(r *report, p path) {
	validateList(r, p, len(e.Requests))
	for i := range e.Requests {
		if at := p.index(i); !r.failed[at] {
			e.Requests[i].validate(r, at)
		}
	}
}

func (q *EngineRequests) validate(r *report, p path) {
	validateSeries(r, p.key("series"), q.Series)
	validateSelector(r, p.key("labels"), q.Labels)
	validateList(r, p.key("by"), len(q.By))
	for i, name := range q.By {
		validateLabelName(r, p.key("by").index(i), name)
	}
	if len(q.As) > 0 && len(q.By) == 0 && !r.failed[p.key("by")] {
		r.errorf(p.key("as"), "means nothing without by")
	}
	for _, value := range slices.Sorted(maps.Keys(q.As)) {
		validateOneOf(r, p.key("as").key(value), q.As[value], Finishes()...)
	}
	validateOneOf(r, p.key("else"), q.Else, Finishes()...)
}

func (s *EngineSource) validate(r *report, p path) {
	if r.failed[p] {
		return // not a source at all
	}
	validateSeries(r, p.key("series"), s.Series)
	validateSelector(r, p.key("labels"), s.Labels)
	if r.written(p.key("from_label")) {
		validateLabelName(r, p.key("from_label"), s.FromLabel)
	}
	validateOneOf(r, p.key("combine"), s.Combine, CombineSum, CombineMax)
	validateScale(r, p.key("scale"), s.Scale)
	if s.Plus != nil {
		s.Plus.validate(r, p.key("plus"))
	}
	if s.Times != nil {
		s.Times.validate(r, p.key("times"))
	}
}

func (h *EngineHistogram) validate(r *report, p path) {
	if r.failed[p] {
		return
	}
	series, sum, count := p.key("series"), p.key("sum"), p.key("count")
	stated := func(at path) bool { return r.written(at) || r.failed[at] }
	switch parts := stated(sum) || stated(count); {
	case stated(series) && parts:
		r.errorf(series, "excludes sum and count")
	case parts:
		validateSeries(r, sum, h.Sum)
		validateSeries(r, count, h.Count)
	case stated(series):
		validateSeries(r, series, h.Series)
	default:
		r.errorf(series, "missing; want the name of a histogram, or sum and count")
	}
	validateSelector(r, p.key("labels"), h.Labels)
	validateScale(r, p.key("scale"), h.Scale)
}

// validateList refuses an empty list, which would be lost where the mapping is
// printed.
func validateList(r *report, p path, n int) {
	if r.written(p) && n == 0 {
		r.errorf(p, "an empty list; leave the key out")
	}
}

func validateScale(r *report, p path, scale float64) {
	if scale <= 0 {
		r.errorf(p, "want a number above 0")
	}
}

// validateSelector checks labels that restrict samples: any value may be
// wanted, the empty one included.
func validateSelector(r *report, p path, labels map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		validateLabelName(r, p.key(name), name)
	}
}

func validateLabelName(r *report, p path, name string) {
	if !isIdentifier(name) {
		r.errorf(p, "label name %s is not of the form [a-zA-Z_][a-zA-Z0-9_]*", quote(name))
	}
}

func validateSeries(r *report, p path, name string) {
	switch {
	case name == "":
		r.errorf(p, "missing; want the name of a series")
	case !isIdentifier(strings.ReplaceAll(name, ":", "_")):
		r.errorf(p, "series %s is not of the form [a-zA-Z_:][a-zA-Z0-9_:]*", quote(name))
	}
}

// isPage tells whether s is a path, with or without a port before it.
func isPage(s string) bool {
	if host, path, ok := strings.Cut(s, "/"); ok && strings.HasPrefix(host, ":") {
		port, err := strconv.ParseUint(host[1:], 10, 16)
		return err == nil && port > 0 && isPath("/"+path)
	}
	return isPath(s)
}

func validateQuantities(r *report, p path, list []Quantity) {
	validateList(r, p, len(list))
	for i, q := range list {
		validateQuantity(r, p.index(i), q, Quantities())
	}
}

func validateQuantity(r *report, p path, q Quantity, known []Quantity) {
	if slices.Contains(known, q) {
		return
	}
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = string(k)
	}
	r.errorf(p, "unknown quantity %s; known here: %s", quote(string(q)), joinSome(words))
}

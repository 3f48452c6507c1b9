package config

import (
	"maps"
)

// setDefaults leaves the keys of the mapping itself as they are: a built-in
// mapping of the same name supplies what they leave out.
func (e *Engine) setDefaults(r *report, p path) {
	dropUnwritten(r, p.key("values"), e.Values)
	for q, sources := range e.Values {
		for i := range sources {
			sources[i].setDefaults(r, p.key("values").key(string(q)).index(i), defaultCombine(q))
		}
	}
	dropUnwritten(r, p.key("histograms"), e.Histograms)
	for q, sources := range e.Histograms {
		for i := range sources {
			orDefault(r, p.key("histograms").key(string(q)).index(i).key("scale"), &sources[i].Scale, 1)
		}
	}
	for key, sources := range e.lengths() {
		for i := range sources {
			orDefault(r, p.key(key).index(i).key("scale"), &sources[i].Scale, 1)
		}
	}
	for i := range e.Progress {
		e.Progress[i].setDefaults(r, p.key("progress").index(i), CombineSum)
	}
	for i := range e.PrefixCache {
		at := p.key("prefix_cache").index(i)
		e.PrefixCache[i].Hits.setDefaults(r, at.key("hits"), CombineSum)
		e.PrefixCache[i].Queries.setDefaults(r, at.key("queries"), CombineSum)
	}
	setRequestsDefaults(r, p.key("requests"), e.Requests)
}

func setRequestsDefaults(r *report, p path, all []EngineRequests) {
	for i := range all {
		orDefault(r, p.index(i).key("else"), &all[i].Else, defaultFinish(&all[i]))
	}
}

// dropUnwritten removes the keys without a value, which count as left out. It
// keeps keys with an empty list.
func dropUnwritten[T any](r *report, p path, m map[Quantity][]T) {
	maps.DeleteFunc(m, func(q Quantity, _ []T) bool { return !r.written(p.key(string(q))) })
}

func (s *EngineSource) setDefaults(r *report, p path, combine string) {
	orDefault(r, p.key("combine"), &s.Combine, combine)
	orDefault(r, p.key("scale"), &s.Scale, 1)
	if s.If != nil {
		s.If.setDefaults(r, p.key("if"), CombineMax)
	}
	if s.Plus != nil {
		s.Plus.setDefaults(r, p.key("plus"), CombineSum)
	}
	if s.Times != nil {
		s.Times.setDefaults(r, p.key("times"), CombineMax)
	}
}

func defaultCombine(q Quantity) string {
	if isLargest(q) {
		return CombineMax
	}
	return CombineSum
}

func defaultFinish(req *EngineRequests) string {
	if len(req.By) == 0 {
		return "unknown"
	}
	return "other"
}

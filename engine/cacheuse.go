package engine

import "github.com/inference-exporter/inference_exporter/config"

// cacheUse works out the hits of the prefix cache, the queries, and which item
// of the mapping they come from; an item < 0 is for none. The item of before
// comes first, as another one counts something else.
func (c *mapping) cacheUse(s *scratch, before int) (hits, queries float64, item int) {
	if before < len(c.prefixCache) {
		if hits, queries, ok := c.prefixCache[before].of(s); ok {
			return hits, queries, before
		}
	}
	for i := range c.prefixCache {
		if hits, queries, ok := c.prefixCache[i].of(s); ok {
			return hits, queries, i
		}
	}
	return 0, 0, -1
}

// of works out hits and queries. Where the mapping says so, a counter of hits
// that does not exist yet has counted none.
func (p *cacheHits) of(s *scratch) (hits, queries float64, ok bool) {
	hits, shown := p.hits.of(s.results)
	queries, ok = p.queries.of(s.results)
	shown = shown || p.late || p.lateBehindRay && s.isOfRay(p.queries.source)
	return hits, queries, ok && shown
}

// halfShown returns the other half where the page shows only the hits or only
// the queries of a prefix cache: that one was probably renamed.
func (c *mapping) halfShown(s *scratch) (config.Quantity, bool) {
	for i := range c.prefixCache {
		p := &c.prefixCache[i]
		_, hits := p.hits.of(s.results)
		_, queries := p.queries.of(s.results)
		switch {
		case hits && !queries:
			return config.PrefixCacheAsked, true
		case queries && !hits && p.alone:
			return config.PrefixCacheHits, true
		}
	}
	return "", false
}

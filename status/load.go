package status

import (
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
)

// loadOf sums up what the servers of an endpoint say; nil without servers.
func loadOf(statuses []engine.Status) *Load {
	if len(statuses) == 0 {
		return nil
	}
	l := &Load{Known: len(statuses)}
	var hits []float64
	for i := range statuses {
		snap := statuses[i].Snapshot
		if snap == nil { // not up
			continue
		}
		l.Up++
		plus := func(a, b float64) float64 { return a + b }
		l.Running = combine(l.Running, snap, config.RequestsRunning, plus)
		l.Waiting = combine(l.Waiting, snap, config.RequestsWaiting, plus)
		l.KVUsage = combine(l.KVUsage, snap, config.KVCacheUsage, func(a, b float64) float64 { return max(a, b) })
		if ratio := hitsOf(snap); ratio != nil {
			hits = append(hits, *ratio)
		}
	}
	if len(hits) > 0 {
		var sum float64
		for _, h := range hits {
			sum += h
		}
		l.Hits = new(sum / float64(len(hits)))
	}
	return l
}

// combine adds a quantity to what other servers have of it, if the server tells
// it.
func combine(all *float64, s *engine.Snapshot, q config.Quantity, with func(a, b float64) float64) *float64 {
	v, ok := s.Values[q]
	switch {
	case !ok:
		return all
	case all == nil:
		return &v
	}
	return new(with(*all, v))
}

// hitsOf returns the hit ratio of the prefix cache; nil where nothing was asked
// of it.
func hitsOf(s *engine.Snapshot) *float64 {
	if r := s.PrefixCacheRatio; s.PrefixCacheUnit != "" && r >= 0 && r <= 1 {
		return &r
	}
	return nil
}

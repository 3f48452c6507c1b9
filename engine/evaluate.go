package engine

import (
	"math"

	"github.com/inference-exporter/inference_exporter/config"
)

// of works out a number from the results of the sources; false without one.
func (n *number) of(results []result) (float64, bool) {
	v, shown := 0.0, results[n.source].values != nil
	if shown {
		v = results[n.source].values[0] * n.scale
	}
	if n.plus != nil {
		p, ok := n.plus.of(results)
		v += p
		shown = shown || ok && n.either
	}
	if !shown {
		return 0, false
	}
	if n.times != nil {
		t, ok := n.times.of(results)
		if !ok {
			return 0, false
		}
		v *= t
	}
	return v, !math.IsInf(v, 0) && !math.IsNaN(v)
}

// of works out a histogram from the results of the sources; nil without one.
func (d *distribution) of(results []result) *Histogram {
	if d.sum != nil {
		sum, ok := d.sum.of(results)
		count, ok2 := d.count.of(results)
		if !ok || !ok2 || count > maxCount {
			return nil
		}
		return &Histogram{Count: uint64(count), Sum: sum}
	}
	res := &results[d.source]
	if res.values == nil {
		return nil
	}
	n := len(res.bounds)
	h := &Histogram{Bounds: make([]float64, n), Counts: make([]uint64, n), Sum: res.values[n+1] * d.scale}
	if !(res.values[n] <= maxCount) || math.IsInf(h.Sum, 0) {
		return nil
	}
	h.Count = uint64(res.values[n])
	last := math.Inf(-1)
	for i, b := range res.bounds {
		h.Bounds[i], h.Counts[i] = b*d.scale, uint64(res.values[i])
		if !(h.Bounds[i] > last) || math.IsInf(h.Bounds[i], 0) {
			return nil
		}
		last = h.Bounds[i]
	}
	return h
}

// maxCount is the largest count that is read: up to it, all whole numbers are
// exact.
const maxCount = 1 << 53

// numbers works out the quantities that are one number.
func (c *mapping) numbers(results []result) map[config.Quantity]float64 {
	values := map[config.Quantity]float64{}
	for q, sources := range c.values {
		for _, n := range sources {
			if v, ok := n.of(results); ok {
				if !config.IsRatio(q) || v <= 1 {
					values[q] = v
				}
				break
			}
		}
	}
	return values
}

// distributions works out the histograms.
func (c *mapping) distributions(results []result) map[config.Quantity]*Histogram {
	histograms := map[config.Quantity]*Histogram{}
	for q, sources := range c.histograms {
		for _, d := range sources {
			if h := d.of(results); h != nil {
				histograms[q] = h
				break
			}
		}
	}
	return histograms
}

// finished adds up the ended requests by how they ended.
func (c *mapping) finished(results []result) map[string]float64 {
	requests := map[string]float64{}
	for _, sources := range c.requests {
		for i, source := range sources {
			if v := results[source].values; v != nil && !math.IsInf(v[0], 0) {
				requests[c.finishes[i]] += v[0]
			}
		}
	}
	return requests
}

package status

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

const (
	// usualSpan is how far back looks what is usual, and minUsual how many probes it
	// takes.
	usualSpan = 24 * time.Hour
	minUsual  = 10
)

// Usual returns the medians of TTFT and TPOT, in seconds, of the successful probes of a
// series that started in the 24 hours before an instant, as far as they are kept; nil
// with fewer than 10.
func (b *Board) Usual(id result.SeriesID, before time.Time) (ttft, tpot *float64) {
	e := b.endpoint(id.Endpoint)
	if e == nil {
		return nil, nil
	}
	var first, further []float64
	e.mu.Lock()
	if p := e.find(id); p != nil {
		first, further = p.history.between(before.Add(-usualSpan), before)
	}
	e.mu.Unlock()
	return medianOf(first), medianOf(further)
}

// between returns what was measured of the probes that started in a time, in seconds.
func (h *history) between(from, to time.Time) (ttft, tpot []float64) {
	for i := range h.at {
		if at := h.began + int64(h.at[i]); at < tenths(from) || at >= tenths(to) {
			continue
		}
		if v := ofMicros(h.ttft[i]); v != nil {
			ttft = append(ttft, *v)
		}
		if v := ofMicros(h.tpot[i]); v != nil {
			tpot = append(tpot, *v)
		}
	}
	return ttft, tpot
}

// medianOf returns the median, which it sorts for; nil of too few values.
func medianOf(values []float64) *float64 {
	if len(values) < minUsual {
		return nil
	}
	slices.Sort(values)
	return new(stats.Median(values))
}

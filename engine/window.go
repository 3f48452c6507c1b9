package engine

import "time"

// windowSteps is into how many steps RatioWindow is divided.
const windowSteps = 30

// use is how a prefix cache was used up to a time.
type use struct {
	at            time.Time
	hits, queries float64
}

// window holds what is needed to tell the use of a prefix cache over the last
// RatioWindow.
type window struct {
	item   int   // of the mapping, the source
	latest use   // as the page has it
	total  use   // the same without restarts
	past   []use // totals, oldest first, at least a step apart; only the first may be out of the window
}

// ratio takes in the use at a time and returns hits over queries since the
// beginning of the window, or since the first reading where that is less; -1
// where nothing was asked or the numbers contradict each other.
func (w *window) ratio(now use, item int) float64 {
	if len(w.past) == 0 || w.item != item || now.at.Before(w.latest.at) {
		*w = window{item: item, latest: now, total: now, past: append(w.past[:0], now)}
		return -1
	}
	w.total = use{
		at:      now.at,
		hits:    w.total.hits + increase(w.latest.hits, now.hits),
		queries: w.total.queries + increase(w.latest.queries, now.queries),
	}
	w.latest = now
	start := now.at.Add(-RatioWindow)
	for len(w.past) > 1 && !w.past[1].at.After(start) {
		w.past = append(w.past[:0], w.past[1:]...)
	}
	hits, queries := w.total.hits-w.past[0].hits, w.total.queries-w.past[0].queries
	if now.at.Sub(w.past[len(w.past)-1].at) >= RatioWindow/windowSteps {
		w.past = append(w.past, w.total)
	}
	if queries > 0 && hits <= queries {
		return hits / queries
	}
	return -1
}

// increase returns what a counter has counted between two readings.
func increase(last, now float64) float64 {
	if now < last {
		return now
	}
	return now - last
}

package page

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// GatewayWindow is the longest time that a GatewayUse is about.
const GatewayWindow = 5 * time.Minute

// GatewayUse is what a gateway, or one backend of it, did in a span of time. What the
// pages do not show is nil, and so is a mean of nothing.
type GatewayUse struct {
	// Requests ended, and Failed of them failed.
	Requests, Failed *float64
	// Rejections, Decisions and Cooldowns are counts, as the quantities of these names.
	Rejections, Decisions, Cooldowns *float64
	// HitRatio is the part of what was looked up in the index of prefixes that was
	// expected in the cache of the chosen backend.
	HitRatio *float64
	// Queue, Routing and TTFT are means in seconds.
	Queue, Routing, TTFT *float64
}

// A backend is failing from so many failed requests on, if they are more than such a
// share of all.
const failingRequests, failingShare = 3, 0.1

// IsFailing reports whether so many requests failed that it is worth a look.
func (u *GatewayUse) IsFailing() bool {
	return u.Failed != nil && *u.Failed >= failingRequests && *u.Failed > failingShare**u.Requests
}

// GatewayUses compares readings of a gateway. The zero value is ready. It is for one
// goroutine at a time.
type GatewayUses struct {
	starts []gatewayReading // of possible spans, the oldest first
	last   gatewayReading
}

type gatewayReading struct {
	at time.Time
	*GatewaySnapshot
}

// Add takes in a reading. After a restart of a replica, and with other replicas than
// before, the span begins again.
func (u *GatewayUses) Add(at time.Time, s *GatewaySnapshot) {
	now := gatewayReading{at, s}
	if u.last.GatewaySnapshot != nil && (!slices.Equal(u.last.Pages, s.Pages) || restarted(u.last.GatewaySnapshot, s)) {
		u.starts = nil
	}
	u.last = now
	if n := len(u.starts); n == 0 || at.Sub(u.starts[n-1].at) >= GatewayWindow/2 {
		u.starts = append(u.starts, now)
	}
	for len(u.starts) > 1 && at.Sub(u.starts[0].at) > GatewayWindow {
		u.starts = slices.Delete(u.starts, 0, 1)
	}
}

// restarted reports whether a counter of the whole gateway is less than before.
func restarted(before, now *GatewaySnapshot) bool {
	for q, v := range now.Values {
		if config.IsCounter(q) && v < before.Values[q] {
			return true
		}
	}
	for finish, n := range before.Requests {
		if now.Requests[finish] < n {
			return true
		}
	}
	return false
}

// Latest returns the latest reading; nil before the first.
func (u *GatewayUses) Latest() *GatewaySnapshot { return u.last.GatewaySnapshot }

// Span returns the time that the uses are about: at most GatewayWindow, and 0 after one
// reading.
func (u *GatewayUses) Span() time.Duration {
	if len(u.starts) == 0 {
		return 0
	}
	return u.last.at.Sub(u.starts[0].at)
}

// Whole returns the use of the gateway.
func (u *GatewayUses) Whole() GatewayUse {
	if u.Span() == 0 {
		return GatewayUse{}
	}
	return UseBetween(u.starts[0].GatewaySnapshot, u.last.GatewaySnapshot)
}

// Backend returns the use of a backend. One that was not there when the span began
// counts from 0.
func (u *GatewayUses) Backend(name string) GatewayUse {
	now := u.Latest()
	if u.Span() == 0 || now.Backends[name] == nil {
		return GatewayUse{}
	}
	before := u.starts[0].Backends[name]
	if before == nil {
		before = emptyGateway()
	}
	return UseBetween(before, now.Backends[name])
}

// failed is how a request ended that failed, one of config.Finishes.
const failed = "error"

// UseBetween returns the use between two readings of the same replicas, none of which was
// restarted.
func UseBetween(before, now *GatewaySnapshot) GatewayUse {
	use := GatewayUse{
		Rejections: counted(before, now, config.Rejections), Decisions: counted(before, now, config.RoutingDecisions),
		Cooldowns: counted(before, now, config.Cooldowns),
		Queue:     meanOf(before, now, config.QueueTime), Routing: meanOf(before, now, config.RoutingTime), TTFT: meanOf(before, now, config.TTFT),
	}
	if len(now.Requests) > 0 {
		all := 0.0
		for finish, n := range now.Requests {
			all += max(0, n-before.Requests[finish])
		}
		use.Requests = &all
		use.Failed = new(max(0, now.Requests[failed]-before.Requests[failed]))
	}
	if asked := counted(before, now, config.PrefixCacheAsked); asked != nil && *asked > 0 {
		if hits := counted(before, now, config.PrefixCacheHits); hits != nil {
			use.HitRatio = new(min(1, *hits / *asked))
		}
	}
	return use
}

// counted returns by how much a counter grew; nil where it is not known.
func counted(before, now *GatewaySnapshot, q config.Quantity) *float64 {
	v, ok := now.Values[q]
	if !ok {
		return nil
	}
	return new(max(0, v-before.Values[q]))
}

// meanOf returns the mean of what was measured between two readings, in seconds.
func meanOf(before, now *GatewaySnapshot, q config.Quantity) *float64 {
	h := now.Histograms[q]
	if h == nil {
		return nil
	}
	count, sum := h.Count, h.Sum
	if b := before.Histograms[q]; b != nil {
		if b.Count > count || b.Sum > sum {
			return nil
		}
		count, sum = count-b.Count, sum-b.Sum
	}
	if count == 0 {
		return nil
	}
	return new(sum / float64(count))
}

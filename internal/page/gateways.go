package page

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// maxBackends is how many backends of a gateway are read one by one. Those of a page with more are read together only.
const maxBackends = 100

// readiness is how to find whether a backend is ready.
type readiness struct {
	*number
	values []float64
}

// isNoBackend reports whether a name is what programs write for one that is missing: those in Python, and agentgateway.
func isNoBackend(name string) bool { return name == "" || name == "None" || name == "unknown" }

// backendOf returns the name of the backend of a sample; "" without one.
func (c *mapping) backendOf(ls labels.Labels) string {
	for _, name := range c.config.Backend {
		if v := ls.Get(name); !isNoBackend(v) && len(v) <= maxBackendName {
			return v
		}
	}
	return ""
}

// byBackend returns the samples of each backend; nil where the page has none, or too many.
func (s *scratch) byBackend(c *mapping) map[string][]sample {
	if len(s.owners) == 0 {
		return nil
	}
	parts := s.byOwner()
	if len(parts) > maxBackends {
		// Of those of which the page shows counters alone, while it shows the readiness of others, the
		// program keeps the counters of all that it ever had.
		showsReadiness := func(sm sample) bool {
			return slices.ContainsFunc(c.ready, func(r readiness) bool { return r.source == int(sm.source) })
		}
		maps.DeleteFunc(parts, func(_ string, samples []sample) bool { return !slices.ContainsFunc(samples, showsReadiness) })
	}
	if len(parts) == 0 || len(parts) > maxBackends {
		return nil
	}
	return parts
}

// readBackends adds to the snapshot of a page those of its backends, each read as if it had a page of its own,
// with the samples of that backend.
func (r *Reader) readBackends(w way, s *scratch, p *page, snap *Snapshot, parts map[string][]sample) error {
	backends := make(map[string]*Reader, len(parts))
	for name, samples := range parts {
		b := cmp.Or(r.backends[name], &Reader{mappings: r.mappings})
		backends[name] = b
		s.again(w.mapping, samples)
		if err := s.assemble(p, w.mapping); err != nil {
			return err
		}
		b.follow(w, s)
		one := b.snapshot(w.mapping, s, snap.At)
		one.Missing = nil
		if len(w.mapping.backendRequests) > 0 {
			one.Requests, one.Errors = w.mapping.finished(w.mapping.backendRequests, s.results)
		}
		w.mapping.judge(one, s.results)
		if snap.Backends == nil {
			snap.Backends = make(map[string]*Snapshot, len(parts))
		}
		snap.Backends[name] = one
	}
	r.backends = backends
	snap.countBackends()
	return nil
}

// clean makes the settings and the names of the backends safe to show. Of names that are then the same, the first counts.
func (s *Snapshot) clean(secrets *safetext.Secrets) {
	for name, value := range s.Settings {
		s.Settings[name] = secrets.Line(value, maxSetting)
	}
	if s.Backends == nil {
		return
	}
	shown := make(map[string]*Snapshot, len(s.Backends))
	for _, name := range slices.Sorted(maps.Keys(s.Backends)) {
		if clean := secrets.Line(name, maxBackendName); clean != "" && shown[clean] == nil {
			shown[clean] = s.Backends[name]
		}
	}
	s.Backends = shown
}

// judge sets whether the backend of a snapshot is ready, where the page says so: it is then one of one or none of one.
func (c *mapping) judge(one *Snapshot, results []series) {
	delete(one.Values, config.Backends)
	delete(one.Values, config.BackendsReady)
	for _, ready := range c.ready {
		if v, ok := ready.of(results); ok {
			one.Values[config.Backends], one.Values[config.BackendsReady] = 1, 0
			if slices.Contains(ready.values, v) {
				one.Values[config.BackendsReady] = 1
			}
			return
		}
	}
}

// countBackends sets the numbers of backends that the page does not show as such.
func (s *Snapshot) countBackends() {
	for _, q := range []config.Quantity{config.Backends, config.BackendsReady} {
		if _, shown := s.Values[q]; shown {
			continue
		}
		n, known := 0.0, false
		for _, b := range s.Backends {
			v, ok := b.Values[q]
			n, known = n+v, known || ok
		}
		if known {
			s.Values[q] = n
		}
	}
}

// GatewayWindow is the longest time that a GatewayUse is about.
const GatewayWindow = 5 * time.Minute

// GatewayUse is what a gateway, or one backend of it, did in a span of time. What the pages do not show is nil,
// and so is a mean of nothing.
type GatewayUse struct {
	// Requests ended, and Failed of them failed.
	Requests *float64 `json:"requests,omitempty"`
	Failed   *float64 `json:"failed,omitempty"`
	// Rejections, Decisions and Cooldowns are counts, as the quantities of these names.
	Rejections *float64 `json:"rejections,omitempty"`
	Decisions  *float64 `json:"routing_decisions,omitempty"`
	Cooldowns  *float64 `json:"cooldowns,omitempty"`
	// Retries, Fallbacks, those of them that failed, and DataLayerErrors are counts as well.
	Retries          *float64 `json:"retries,omitempty"`
	Fallbacks        *float64 `json:"fallbacks,omitempty"`
	FallbackFailures *float64 `json:"fallback_failures,omitempty"`
	DataLayerErrors  *float64 `json:"data_layer_errors,omitempty"`
	// PromptTokens and GenerationTokens are those of the requests, and CachedRatio is the part of PromptTokens that
	// servers or providers read from their cache.
	PromptTokens     *float64 `json:"prompt_tokens,omitempty"`
	GenerationTokens *float64 `json:"generation_tokens,omitempty"`
	CachedRatio      *float64 `json:"cached_prompt_tokens_ratio,omitempty"`
	// HitRatio is the part of what was looked up in the index of prefixes that was expected in the cache of
	// the chosen backend.
	HitRatio *float64 `json:"prefix_cache_hit_ratio,omitempty"`
	// Queue, Routing, Overhead, TTFT and TPOT are means in seconds.
	Queue    *float64 `json:"queue_seconds,omitempty"`
	Routing  *float64 `json:"routing_seconds,omitempty"`
	Overhead *float64 `json:"overhead_seconds,omitempty"`
	TTFT     *float64 `json:"ttft_seconds,omitempty"`
	TPOT     *float64 `json:"tpot_seconds,omitempty"`
}

// A backend is failing from so many failed requests on, if they are more than such a share of all.
const failingRequests, failingShare = 3, 0.1

// IsFailing reports whether so many requests failed that it is worth a look; nil is not.
func (u *GatewayUse) IsFailing() bool {
	return u != nil && u.Failed != nil && *u.Failed >= failingRequests && *u.Failed > failingShare**u.Requests
}

// GatewayUses compares readings of a gateway. The zero value is ready. It is for one goroutine at a time.
type GatewayUses struct {
	starts []*Total // of possible spans, the oldest first
	last   *Total
}

// Add takes in a reading. After a restart of a replica, and with other replicas than before, the span begins again.
func (u *GatewayUses) Add(now *Total) {
	if !now.Follows(u.last) {
		u.starts = nil
	}
	u.last = now
	if n := len(u.starts); n == 0 || now.At.Sub(u.starts[n-1].At) >= GatewayWindow/2 {
		u.starts = append(u.starts, now)
	}
	u.starts = stats.DropOld(u.starts, func(start *Total) bool { return now.At.Sub(start.At) > GatewayWindow })
}

// Latest returns the latest reading; nil before the first.
func (u *GatewayUses) Latest() *Total { return u.last }

// Span returns the time that the uses are about: at most GatewayWindow, and 0 after one reading.
func (u *GatewayUses) Span() time.Duration {
	if len(u.starts) == 0 {
		return 0
	}
	return u.last.At.Sub(u.starts[0].At)
}

// Whole returns the use of the gateway; nil where nothing of it is known.
func (u *GatewayUses) Whole() *GatewayUse {
	if u.Span() == 0 {
		return nil
	}
	return useBetween(u.starts[0], u.last)
}

// Backend returns the use of a backend, nil as for Whole. One that was not there when the span began counts from 0.
func (u *GatewayUses) Backend(name string) *GatewayUse {
	if u.Span() == 0 || u.last.Backends[name] == nil {
		return nil
	}
	return useBetween(cmp.Or(u.starts[0].Backends[name], new(Total)), u.last.Backends[name])
}

func useBetween(before, now *Total) *GatewayUse {
	use := &GatewayUse{
		Rejections: now.Counted(before, config.Rejections), Decisions: now.Counted(before, config.RoutingDecisions),
		Cooldowns: now.Counted(before, config.Cooldowns), Retries: now.Counted(before, config.Retries),
		Fallbacks: now.Counted(before, config.Fallbacks), FallbackFailures: now.Counted(before, config.FallbackFailures),
		DataLayerErrors: now.Counted(before, config.DataLayerErrors),
		PromptTokens:    now.Counted(before, config.PromptTokens), GenerationTokens: now.Counted(before, config.GenerationTokens),
		CachedRatio: now.part(before, config.CachedTokens, config.PromptTokens),
		HitRatio:    now.part(before, config.PrefixCacheHits, config.PrefixCacheAsked),
		Queue:       now.Mean(before, config.QueueTime), Routing: now.Mean(before, config.RoutingTime), Overhead: now.Mean(before, config.Overhead),
		TTFT: now.Mean(before, config.TTFT), TPOT: now.Mean(before, config.TPOT),
	}
	if ended := now.Ended(before); ended != nil {
		use.Requests = new(sumOf(ended))
		if _, vague := ended[config.FinishUnknown]; !vague || len(ended) > 1 {
			use.Failed = new(ended[config.FinishError])
		}
	}
	if *use == (GatewayUse{}) {
		return nil
	}
	return use
}

// part returns what part of a count another count was since an earlier reading; nil where one is not known, or of nothing.
func (t *Total) part(before *Total, of, all config.Quantity) *float64 {
	n, whole := t.Counted(before, of), t.Counted(before, all)
	if n == nil || whole == nil || *whole == 0 {
		return nil
	}
	return new(min(1, *n / *whole))
}

package collector

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
)

// numStates is the number of states of a server.
const numStates = 4

// states lists the closed set of states of a server.
func states() []engine.State {
	return []engine.State{engine.Up, engine.Down, engine.Unreadable, engine.Unmapped}
}

// scrapeReasons lists the closed set of reasons why a page was not read.
func scrapeReasons() []engine.Reason {
	return []engine.Reason{
		engine.ReasonDNS, engine.ReasonConnect, engine.ReasonTLS, engine.ReasonTimeout, engine.ReasonStatus,
		engine.ReasonTooLarge, engine.ReasonFormat, engine.ReasonDuplicate, engine.ReasonType, engine.ReasonUnmapped,
	}
}

// serverValues is the state behind the samples of one server.
type serverValues struct {
	info   *labelBlock // nil before the first page
	status *engine.Status
}

// snapshotOf returns what the page of a server tells; nil unless it was read.
func snapshotOf(st *engine.Status) *engine.Snapshot {
	if st.State != engine.Up {
		return nil
	}
	return st.Snapshot
}

// serverFamily is a family of the series of servers.
type serverFamily = familyOf[serverValues]

// serverFamilies returns the families of servers in the order of the
// documentation.
func serverFamilies() []*serverFamily {
	all := readingFamilies()
	all = append(all, loadFamilies()...)
	all = append(all, prefixCacheFamilies()...)
	all = append(all, workFamilies()...)
	return append(all, engineHistogramFamilies()...)
}

// readingFamilies are how the readings of the pages went.
func readingFamilies() []*serverFamily {
	reasons := scrapeReasons()
	return []*serverFamily{
		statusGauge("up", "",
			"1 if the server's own metrics page was read and understood at the latest reading, 0 if not; inference_server_scrape_failures_total tells why. A server without a page can still serve: inference_probe_success says whether it does.",
			func(st *engine.Status) gauge {
				g := gauge{present: true}
				if st.State == engine.Up {
					g.value = 1
				}
				return g
			}),
		serverInfoFamily(),
		statusGauge("scrape_duration_seconds", "seconds",
			"Duration of the latest reading of the server's page. A page that gets slow comes from a process that is busy.",
			func(st *engine.Status) gauge { return gauge{st.Duration.Seconds(), !st.At.IsZero()} }),
		statusGauge("last_scrape_timestamp_seconds", "seconds",
			"Unix time at which the latest reading began, be it a failed one. All values of the server are as old as that.",
			func(st *engine.Status) gauge { return timeGauge(st.At) }),
		newServerFamily(Family{
			Name: "scrape_failures_total", Type: Counter, Labels: []string{"reason"}, Values: labelValues(reasons),
			Help: "Readings that failed: the name had no address (dns), there was no connection (connect, tls), no page in time (timeout) or an error instead (http_status), or what came is too large, no page of metrics (format), contradicts itself (duplicate), holds another type than the mapping expects (wrong_type) or is of an unknown engine (unmapped).",
		}, func(e encoder, f *family, v serverValues) {
			for _, i := range f.order {
				e.counter(i, float64(v.status.Failures[reasons[i]]))
			}
		}),
		newServerFamily(Family{
			Name: "quantity_missing", Type: Gauge, Labels: []string{"quantity"}, Values: labelValues(config.Quantities()),
			Help: "1 for a quantity that every page of this engine should show and this one does not: it was probably renamed, and the mapping is to be changed. Absent for all others.",
		}, func(e encoder, f *family, v serverValues) {
			if s := snapshotOf(v.status); s != nil {
				for _, i := range f.order {
					if slices.Contains(s.Missing, config.Quantity(f.Values[i])) {
						e.gauge(i, 1)
					}
				}
			}
		}),
		statusGauge("last_progress_timestamp_seconds", "seconds",
			"Unix time at which the server was last seen to generate, or to have no request. Where it stays behind inference_server_last_scrape_timestamp_seconds while requests run, the engine hangs. Absent for engines that do not show it.",
			func(st *engine.Status) gauge { return timeGauge(st.LastProgress) }),
	}
}

// loadFamilies are how much a server has to do, and how much it can.
func loadFamilies() []*serverFamily {
	return []*serverFamily{
		quantityGauge(config.RequestsRunning, "",
			"Requests that the server works on."),
		quantityGauge(config.RequestsWaiting, "",
			"Requests that wait in the server's queue. More than a few for longer than a moment means that it is saturated: TTFT grows before anything fails."),
		quantityGauge(config.KVCacheUsage, "ratio",
			"Share of the KV cache in use, 0 to 1. Near 1 the server queues or preempts requests. What is kept for reuse only is left out where the engine can tell."),
		quantityGauge(config.KVCacheCapacity, "tokens",
			"Tokens that fit into the KV cache, for all requests together."),
		quantityGauge(config.ContextLength, "tokens",
			"Longest prompt and answer together that the server takes."),
	}
}

// prefixCacheFamilies are what the reuse of prompts saves.
func prefixCacheFamilies() []*serverFamily {
	return []*serverFamily{
		quantityCounter(config.PrefixCacheAsked, "",
			"What the prefix cache was asked for, in the unit that the label prefix_cache_unit of inference_server_info names."),
		quantityCounter(config.PrefixCacheHits, "",
			"The part of inference_server_prefix_cache_queries_total that was found in the prefix cache and not computed again."),
		snapshotGauge("prefix_cache_hit_ratio", "ratio",
			"Hits over queries of the prefix cache, 0 to 1, over the last 5 minutes, or since the first reading where that is less. Absent while nothing is asked.",
			func(s *engine.Snapshot) gauge {
				r := s.PrefixCacheRatio
				return gauge{r, s.PrefixCacheUnit != "" && r >= 0 && r <= 1}
			}),
	}
}

// workFamilies count what a server has done.
func workFamilies() []*serverFamily {
	return []*serverFamily{
		quantityCounter(config.PromptTokens, "tokens",
			"Prompt tokens of the requests that the server took, cached ones included. Some engines count them only when a request ends."),
		quantityCounter(config.GenerationTokens, "tokens",
			"Tokens that the server generated. Some engines count them only when a request ends."),
		newServerFamily(Family{
			Name: "requests_total", Type: Counter, Labels: []string{"finish"}, Values: config.Finishes(),
			Help: "Requests that ended: at a stop token (stop), at the limit of tokens (length), given up by the client (abort), with an error, well where the engine tells no more (success), otherwise (other), or in a way that the engine does not tell (unknown). An ending appears when the engine first shows it.",
		}, func(e encoder, f *family, v serverValues) {
			if s := snapshotOf(v.status); s != nil {
				for _, i := range f.order {
					emitCounter(e, i, s.Requests, f.Values[i])
				}
			}
		}),
		quantityCounter(config.Preemptions, "",
			"Requests that were thrown out of the KV cache for lack of room, to be computed again. Any steady rate means that the cache is too small for the load."),
		quantityCounter(config.EvictedTokens, "tokens",
			"Cached tokens that had to make room in the KV cache."),
		quantityCounter(config.DraftTokens, "tokens",
			"Tokens that speculative decoding proposed."),
		quantityCounter(config.AcceptedTokens, "tokens",
			"Proposed tokens that the model accepted. Over inference_server_spec_decode_draft_tokens_total it is the acceptance rate."),
	}
}

// engineHistogramFamilies are the engines' own distributions over all their
// requests.
func engineHistogramFamilies() []*serverFamily {
	return []*serverFamily{
		quantityHistogram(config.TTFT,
			"Time to first token of all requests, as the server sees it: from their arrival, its queue included, without the network."),
		quantityHistogram(config.TPOT,
			"Time per output token of all requests: one mean for each request, after its first token."),
		quantityHistogram(config.InterToken,
			"Time between two tokens of all requests. One observation for each token."),
		quantityHistogram(config.QueueTime,
			"Time that requests spent in the server's queue. Counted when the request ends or leaves the queue."),
		quantityHistogram(config.PrefillTime,
			"Time that the server took for the prompts of requests."),
		quantityHistogram(config.DecodeTime,
			"Time that the server took to generate after the first token of requests."),
		quantityHistogram(config.RequestDuration,
			"Duration of all requests as the server sees it, its queue included. Counted when the request ends."),
	}
}

// serverInfoFamily describes the servers. It has labels that the others lack.
func serverInfoFamily() *serverFamily {
	f := Family{
		Name: "server_info", Group: GroupServer, Type: Gauge,
		Help: "Always 1. What is known of a server while its page is read: the URL of the page, and what the prefix cache's hits are counted in: tokens, blocks or requests.",
	}
	return &serverFamily{
		newFamily(f, []string{"endpoint", "model", "server", "engine", "url", "prefix_cache_unit"}, nil),
		func(e encoder, _ *family, v serverValues) {
			if snapshotOf(v.status) != nil {
				e.labels(v.info, time.Time{})
				e.gauge(0, 1)
			}
		},
	}
}

// newServerFamily returns a family with the labels of every server family.
// f.Name comes without "server_".
func newServerFamily(f Family, emit func(e encoder, f *family, v serverValues)) *serverFamily {
	f.Name, f.Group = "server_"+f.Name, GroupServer
	return &serverFamily{newFamily(f, []string{"endpoint", "model", "server", "engine"}, nil), emit}
}

// statusGauge returns a family of one gauge for each server, up or not.
func statusGauge(name, unit, help string, get func(st *engine.Status) gauge) *serverFamily {
	return newServerFamily(Family{Name: name, Type: Gauge, Unit: unit, Help: help},
		func(e encoder, _ *family, v serverValues) {
			if g := get(v.status); g.present {
				e.gauge(0, g.value)
			}
		})
}

// snapshotGauge returns a family of one gauge for each server that is up.
func snapshotGauge(name, unit, help string, get func(s *engine.Snapshot) gauge) *serverFamily {
	return statusGauge(name, unit, help, func(st *engine.Status) gauge {
		if s := snapshotOf(st); s != nil {
			return get(s)
		}
		return gauge{}
	})
}

// quantityGauge returns the family of a quantity that is a gauge.
func quantityGauge(q config.Quantity, unit, help string) *serverFamily {
	return snapshotGauge(string(q), unit, help, func(s *engine.Snapshot) gauge {
		v, ok := s.Values[q]
		return gauge{v, ok && isMeasure(v)}
	})
}

// quantityCounter returns the family of a quantity that is a counter.
func quantityCounter(q config.Quantity, unit, help string) *serverFamily {
	return newServerFamily(Family{Name: string(q) + "_total", Type: Counter, Unit: unit, Help: help},
		func(e encoder, _ *family, v serverValues) {
			if s := snapshotOf(v.status); s != nil {
				emitCounter(e, 0, s.Values, q)
			}
		})
}

// quantityHistogram returns the family of a distribution, with the bounds of
// each server.
func quantityHistogram(q config.Quantity, help string) *serverFamily {
	return newServerFamily(Family{Name: string(q) + "_seconds", Type: Histogram, Unit: "seconds", Help: help + " Buckets are the engine's own; only +Inf where it tells the mean alone."},
		func(e encoder, _ *family, v serverValues) {
			s := snapshotOf(v.status)
			if s == nil {
				return
			}
			if h := s.Histograms[q]; h != nil && len(h.Counts) == len(h.Bounds) && isMeasure(h.Sum) {
				e.engineHistogram(h)
			}
		})
}

// emitCounter encodes the value of a key, if there is one that can be counted.
func emitCounter[K comparable](e encoder, own int, values map[K]float64, key K) {
	if v, ok := values[key]; ok && v >= 0 && v < 1<<63 {
		e.counter(own, math.Round(v))
	}
}

// isMeasure tells whether v is finite and not negative.
func isMeasure(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }

// timeGauge returns the Unix time of t; absent for the zero time.
func timeGauge(t time.Time) gauge {
	if t.IsZero() {
		return gauge{}
	}
	return gauge{unixSeconds(t), true}
}

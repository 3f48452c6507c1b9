package collector

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
)

// numStates is the number of states of a server.
const numStates = 4

// states lists the closed set of states of a server.
func states() []page.State {
	return []page.State{page.Up, page.Down, page.Unreadable, page.Unmapped}
}

// scrapeReasons lists the closed set of reasons why a page was not read.
func scrapeReasons() []page.Reason {
	return []page.Reason{
		page.ReasonDNS, page.ReasonConnect, page.ReasonTLS, page.ReasonTimeout, page.ReasonStatus,
		page.ReasonTooLarge, page.ReasonFormat, page.ReasonDuplicate, page.ReasonType, page.ReasonBuckets,
		page.ReasonUnmapped,
	}
}

// serverValues is the state behind the samples of one server.
type serverValues struct {
	info   []*labelBlock // one, none before the first page
	status *page.Status
}

// snapshotOf returns the content of a server's page; nil unless it was read.
func snapshotOf(st *page.Status) *page.Snapshot {
	if st.State != page.Up {
		return nil
	}
	return st.Snapshot
}

// serverFamily is a family of the series of servers.
type serverFamily = familyOf[serverValues]

// serverFamilies returns the families of servers in the order of the
// documentation.
func serverFamilies() []*serverFamily {
	return slices.Concat(
		readingFamilies(),
		quantityFamilies("load"),
		quantityFamilies("prefix cache"), []*serverFamily{prefixCacheRatioFamily()}, quantityFamilies("external cache"),
		quantityFamilies("tokens"), []*serverFamily{requestsFamily()}, quantityFamilies("work"),
		quantityFamilies("transfers"),
		quantityFamilies("estimates"),
		quantityFamilies("distributions"),
	)
}

// readingFamilies are how the readings of the pages went.
func readingFamilies() []*serverFamily {
	reasons, quantities := scrapeReasons(), config.Quantities(config.ServerSoftware)
	return []*serverFamily{
		statusGauge("up", "",
			"1 if the latest scrape of the server's own metrics page succeeded, 0 otherwise; see inference_server_scrape_failures_total for the reason. A server whose page fails may still serve requests: see inference_probe_success.",
			func(st *page.Status) float64 { return number(st.State == page.Up) }),
		newInfo(GroupServer, "server_info",
			"Always 1. Describes a server whose page is read: the URL of the page, the unit of the prefix cache's counters: tokens, blocks or requests, and, where the page shows it, what part of a request the server does: all of it (unified), the prompt (prefill) or the answer (decode).",
			[]string{"endpoint", "model", "server", "engine", "url", "prefix_cache_unit", "disaggregation_role"}, func(v serverValues) []*labelBlock {
				if snapshotOf(v.status) == nil {
					return nil
				}
				return v.info
			}),
		statusGauge("scrape_duration_seconds", "seconds",
			"Duration of the latest scrape of the server's page. It grows when the server process is busy.",
			func(st *page.Status) float64 {
				if st.At.IsZero() {
					return math.NaN()
				}
				return st.Duration.Seconds()
			}),
		statusGauge("last_scrape_timestamp_seconds", "seconds",
			"Unix time at which the latest scrape of the server's page started, whether it succeeded or failed. All values of the server are from that time.",
			func(st *page.Status) float64 { return unixOrAbsent(st.At) }),
		newServerFamily(Family{
			Name: "scrape_failures_total", Type: Counter, Labels: []string{"reason"}, Values: config.Texts(reasons),
			Help:  "Failed scrapes of the server's page, by reason.",
			Notes: "The host name does not resolve (dns), no connection (connect, tls), no reply in time (timeout), an HTTP error (http_status), or a page that is too large (too_large), not in a metrics format (format), has duplicate series (duplicate), has another metric type than the mapping expects (wrong_type), has histograms of over 100 buckets or of ever new ones (buckets) or belongs to an unknown engine (unmapped).",
		}, func(e encoder, f *family, v serverValues) {
			for _, i := range f.order {
				if n := v.status.Failures[reasons[i]]; n > 0 || !e.compact() {
					e.counter(i, float64(n))
				}
			}
		}),
		newServerFamily(Family{
			Name: "quantity_missing", Type: Gauge, Labels: []string{"quantity"}, Values: config.Texts(quantities),
			Help: "1 for a quantity that every page of this engine should have and this one lacks: the engine probably renamed it, and the mapping must be changed. Absent for all other quantities.",
		}, emitEach(func(v serverValues, i int) float64 {
			if s := snapshotOf(v.status); s == nil || !slices.Contains(s.Missing, quantities[i]) {
				return math.NaN()
			}
			return 1
		})),
		statusGauge("last_progress_timestamp_seconds", "seconds",
			"Unix time at which the server last generated tokens or had no requests. If it falls behind inference_server_last_scrape_timestamp_seconds while requests are running, the engine hangs. Absent for engines that do not expose progress.",
			func(st *page.Status) float64 { return unixOrAbsent(st.LastProgress) }),
	}
}

// quantityFamilies are the families of a section of the vocabulary of servers' pages.
func quantityFamilies(section string) []*serverFamily {
	var all []*serverFamily
	for _, row := range config.Vocabulary(config.ServerSoftware) {
		if row.Section != section {
			continue
		}
		q := row.Quantity
		f := Family{Name: q.MetricName(), Type: Type(row.Kind), Unit: row.Unit, Help: row.Help}
		if f.Type == Histogram {
			f.Help += " Buckets are those of the engine; only +Inf if it reports only a sum and a count."
		}
		all = append(all, newServerFamily(f, func(e encoder, f *family, v serverValues) {
			s := snapshotOf(v.status)
			switch {
			case s == nil:
			case f.Type == Histogram:
				if h := s.Histograms[q]; isShown(h) {
					e.engineHistogram(h)
				}
			default:
				emitValue(e, f.Type, 0, measure(f.Type, s.Values, q))
			}
		}))
	}
	return all
}

// prefixCacheRatioFamily is the share of the hits.
func prefixCacheRatioFamily() *serverFamily {
	return statusGauge("prefix_cache_hit_ratio", "ratio",
		"Hits divided by queries of the prefix cache, 0 to 1, over the last 5 minutes, or since the first scrape if that is shorter. Absent while there are no queries.",
		func(st *page.Status) float64 {
			s := snapshotOf(st)
			if s == nil || s.PrefixCacheUnit == "" || !(s.PrefixCacheRatio >= 0 && s.PrefixCacheRatio <= 1) {
				return math.NaN()
			}
			return s.PrefixCacheRatio
		})
}

// requestsFamily is the ended requests.
func requestsFamily() *serverFamily {
	finishes := config.Finishes()
	return newServerFamily(Family{
		Name: "requests_total", Labels: []string{"finish"}, Values: finishes,
		Help: "Finished requests by finish reason: a stop token (stop), the token limit (length), aborted by the client (abort), an error (error), success without further detail (success), another reason (other), or a reason that the engine does not report (unknown). A reason appears once the engine exposes it.",
	}, emitEach(func(v serverValues, i int) float64 {
		if s := snapshotOf(v.status); s != nil {
			return measure(Counter, s.Requests, finishes[i])
		}
		return math.NaN()
	}))
}

// newServerFamily returns a family with the labels of every server family.
// f.Name comes without "server_".
func newServerFamily(f Family, emit func(e encoder, f *family, v serverValues)) *serverFamily {
	f.Name, f.Group = "server_"+f.Name, GroupServer
	return &serverFamily{newFamily(f, []string{"endpoint", "model", "server", "engine"}, nil), emit}
}

// statusGauge returns a family of one gauge for each server, up or not.
func statusGauge(name, unit, help string, get func(st *page.Status) float64) *serverFamily {
	return newServerFamily(Family{Name: name, Unit: unit, Help: help}, emitOne(func(v serverValues) float64 { return get(v.status) }))
}

// measure returns the value of a key, a whole number of a counter; NaN where there is none.
func measure[K comparable](t Type, values map[K]float64, key K) float64 {
	v, ok := values[key]
	switch {
	case !ok || !isMeasure(v):
		return math.NaN()
	case t == Counter:
		return math.Round(v)
	}
	return v
}

// isMeasure reports whether v is finite and not negative.
func isMeasure(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }

// unixOrAbsent returns the Unix time of t; NaN for the zero time.
func unixOrAbsent(t time.Time) float64 {
	if t.IsZero() {
		return math.NaN()
	}
	return unixSeconds(t)
}

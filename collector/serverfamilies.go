package collector

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/workload"
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
	info     []*labelBlock // one; none without a page
	settings []*labelBlock
	status   *page.Status
}

// serverFamilies returns the families of servers in the order of the documentation.
func serverFamilies() []*familyOf[serverValues] {
	ratio := statusGauge("server_prefix_cache_hit_ratio", func(st *page.Status) float64 {
		return workload.Part(st.Snapshot, func(s *page.Snapshot) float64 { return workload.Known(s.HitRatio()) })
	})
	finishes := config.Finishes()
	requests := newOf("server_requests_total", emitEach(func(v serverValues, i int) float64 {
		return workload.Part(v.status.Snapshot, func(s *page.Snapshot) float64 { return measure(Counter, s.Requests, finishes[i]) })
	}))
	return slices.Concat(
		readingFamilies(),
		rankFamilies(),
		quantityFamilies("load"),
		quantityFamilies("prefix cache"), []*familyOf[serverValues]{ratio}, quantityFamilies("external cache"),
		quantityFamilies("tokens"), []*familyOf[serverValues]{requests}, quantityFamilies("work"),
		quantityFamilies("transfers"),
		quantityFamilies("estimates"),
		quantityFamilies("distributions"),
	)
}

// readingFamilies are how the readings of the pages went.
func readingFamilies() []*familyOf[serverValues] {
	reasons, quantities := scrapeReasons(), config.Quantities(config.ServerSoftware)
	return []*familyOf[serverValues]{
		statusGauge("server_up", func(st *page.Status) float64 { return workload.Number(st.State == page.Up) }),
		newInfo("server_info", func(v serverValues) []*labelBlock { return v.info }),
		newInfo("server_setting_info", func(v serverValues) []*labelBlock { return v.settings }),
		statusGauge("server_scrape_duration_seconds", func(st *page.Status) float64 {
			return workload.If(!st.At.IsZero(), st.Duration.Seconds())
		}),
		statusGauge("server_last_scrape_timestamp_seconds", func(st *page.Status) float64 { return workload.Unix(st.At) }),
		newOf("server_scrape_failures_total", func(e encoder, f *family, v serverValues) {
			for _, i := range f.order {
				if n := v.status.Failures[reasons[i]]; n > 0 || !e.compact() {
					e.counter(i, float64(n))
				}
			}
		}),
		newOf("server_quantity_missing", emitEach(func(v serverValues, i int) float64 {
			s := v.status.Snapshot
			return workload.If(s != nil && slices.Contains(s.Missing, quantities[i]), 1)
		})),
		statusGauge("server_last_progress_timestamp_seconds", func(st *page.Status) float64 { return workload.Unix(st.LastProgress) }),
	}
}

// rankStats lists the closed set of which rank a number is of.
func rankStats() []string { return []string{"smallest", "largest"} }

// rankFamilies are what the ranks of a server show.
func rankFamilies() []*familyOf[serverValues] {
	families := []*familyOf[serverValues]{newOf("server_ranks", emitOne(func(v serverValues) float64 {
		return workload.Positive(float64(v.ranks().Number))
	}))}
	for i, name := range []string{"requests_running", "requests_waiting", "kv_cache_usage_ratio", "generation_tokens_per_second"} {
		q := page.RankQuantities()[i]
		families = append(families, newOf("server_rank_"+name, emitEach(func(v serverValues, bound int) float64 {
			bounds, known := v.ranks().Bounds[q]
			return workload.If(known, bounds[bound])
		})))
	}
	return append(families, newOf("server_rank_lag_start_timestamp_seconds", emitEach(func(v serverValues, i int) float64 {
		return workload.Unix([]time.Time{v.ranks().Starved, v.ranks().Slow}[i])
	})))
}

// ranks returns what the ranks of the server show; an empty value without any.
func (v serverValues) ranks() page.Ranks {
	if s := v.status.Snapshot; s != nil && s.Ranks != nil {
		return *s.Ranks
	}
	return page.Ranks{}
}

// quantityFamilies are the families of a section of the vocabulary of servers' pages.
func quantityFamilies(section string) []*familyOf[serverValues] {
	var all []*familyOf[serverValues]
	for _, row := range config.Vocabulary(config.ServerSoftware) {
		if row.Section != section {
			continue
		}
		q := row.Quantity
		f := Family{
			Name: namePrefix + "server_" + q.MetricName(), Group: GroupServer, Type: Type(row.Kind), Unit: row.Unit, Help: row.Help,
			Labels: []string{"endpoint", "model", "server", "engine"},
		}
		if f.Type == Histogram {
			f.Help += " Buckets are those of the engine; only +Inf if it reports only a sum and a count."
		}
		shown := f.Type
		if f.Unit == "seconds" { // times are no whole numbers
			shown = Gauge
		}
		all = append(all, &familyOf[serverValues]{newFamily(f, nil), func(e encoder, f *family, v serverValues) {
			s := v.status.Snapshot
			switch {
			case s == nil:
			case f.Type == Histogram:
				if h := s.Histograms[q]; isShown(h) {
					e.engineHistogram(h)
				}
			default:
				emitValue(e, f.Type, 0, measure(shown, s.Values, q))
			}
		}})
	}
	return all
}

// statusGauge returns a family of one gauge for each server, up or not.
func statusGauge(name string, get func(st *page.Status) float64) *familyOf[serverValues] {
	return newOf(name, emitOne(func(v serverValues) float64 { return get(v.status) }))
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

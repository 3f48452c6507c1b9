package collector

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/asset"
	"github.com/inference-exporter/inference_exporter/internal/discovery"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

//go:embed families.yml
var familiesFile []byte

// sections returns the families of families.yml by section, which are not to be changed.
var sections = sync.OnceValue(func() (all map[string][]Family) {
	asset.Decode("families.yml", familiesFile, &all)
	groups := map[string]Group{
		"endpoints": GroupEndpoint, "probes": GroupProbe, "servers": GroupServer, "gateways": GroupGateway, "backends": GroupGateway, "exporter": GroupExporter,
	}
	sets := closedSets()
	for section, families := range all {
		for i := range families {
			f := &families[i]
			f.Type = cmp.Or(f.Type, typeOf(f.Name))
			f.Name, f.Group, f.Values = namePrefix+f.Name, cmp.Or(groups[section], GroupGPU), sets[f.Name]
		}
	}
	return all
})

// written returns a family of families.yml by its name without the prefix.
func written(name string) Family {
	for _, families := range sections() {
		if i := slices.IndexFunc(families, func(f Family) bool { return f.Name == namePrefix+name }); i >= 0 {
			return families[i]
		}
	}
	panic("families.yml has no " + name)
}

// closedSets returns the values of the last label of families of families.yml.
func closedSets() map[string][]string {
	return factSets(map[string][]string{
		"endpoint_price_usd_per_token":              priceKinds(),
		"endpoint_price_per_token":                  priceKinds(),
		"endpoint_budget_used_ratio":                budgetResources(),
		"endpoint_precision_native":                 {"weights", "compute"},
		"endpoint_state":                            config.Texts(health.States()),
		"endpoint_objective_missed":                 series.ObjectiveNames(),
		"endpoint_incident_start_timestamp_seconds": config.Texts(health.Kinds()),
		"endpoint_incident_witness":                 config.Texts(health.Witnesses()),
		"endpoint_cause_info":                       config.Texts(explain.Causes()),
		"endpoint_servers":                          config.Texts(states()),
		"endpoint_ttft_overhead_seconds":            overheadSources(),
		"server_scrape_failures_total":              config.Texts(scrapeReasons()),
		"server_quantity_missing":                   config.Texts(config.Quantities(config.ServerSoftware)),
		"server_requests_total":                     config.Finishes(),
		"server_rank_requests_running":              rankStats(),
		"server_rank_requests_waiting":              rankStats(),
		"server_rank_kv_cache_usage_ratio":          rankStats(),
		"server_rank_generation_tokens_per_second":  rankStats(),
		"server_rank_lag_start_timestamp_seconds":   {"starved", "slow"},
		"gateway_scrape_failures_total":             config.Texts(scrapeReasons()),
		"gateway_quantity_missing":                  config.Texts(config.Quantities(config.GatewaySoftware)),
		"gpu_state":                                 config.Texts(gpuStates()),
		"gpu_poll_failures_total":                   config.Texts(gpuFailures()),
		"gpu_pods_failures_total":                   config.Texts(podsFailures()),
		"gpu_page_failures_total":                   config.Texts(scrapeReasons()),
		"exporter_discovery_rejected_targets":       config.Texts(discovery.Reasons()),
		"exporter_missed_runs_total":                config.Texts(result.SkipReasons()),
		"exporter_budget_used_ratio":                budgetResources(),
		"exporter_probes_total":                     config.Texts(result.Clocks()),
	})
}

// described is a family for a registry.
type described struct {
	Family
	desc *prometheus.Desc
}

// table is a prometheus.Collector of families whose samples one function sends.
type table struct {
	families map[string]*described // by their names without the prefix
	collect  func(*sender)
}

func newTable(families []Family, collect func(*sender)) *table {
	t := &table{make(map[string]*described, len(families)), collect}
	for _, f := range families {
		desc := prometheus.V2.NewDesc(f.Name, f.Help, prometheus.UnconstrainedLabels(f.Labels), nil, prometheus.WithUnit(f.Unit))
		t.families[strings.TrimPrefix(f.Name, namePrefix)] = &described{f, desc}
	}
	return t
}

// Describe implements prometheus.Collector.
func (t *table) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range t.families {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (t *table) Collect(ch chan<- prometheus.Metric) {
	t.collect(&sender{t.families, func(m prometheus.Metric) { ch <- m }})
}

// sender makes samples of families by their names, which come without the prefix.
type sender struct {
	families map[string]*described
	out      func(prometheus.Metric)
}

// send makes a sample of a gauge or a counter.
func (s *sender) send(name string, v float64, labels ...string) {
	f, kind := s.families[name], prometheus.GaugeValue
	if f.Type == Counter {
		kind = prometheus.CounterValue
	}
	s.out(prometheus.MustNewConstMetric(f.desc, kind, v, validLabels(labels)...))
}

// sendKnown makes a sample unless the value is negative or NaN, which is not known.
func (s *sender) sendKnown(name string, v float64, labels ...string) {
	if v >= 0 {
		s.send(name, v, labels...)
	}
}

// histogram makes a histogram with its bounds, or without.
func (s *sender) histogram(name string, h *page.Histogram, bounds bool, labels ...string) {
	buckets := map[float64]uint64{}
	if bounds {
		for i, bound := range h.Bounds {
			buckets[bound] = h.Counts[i]
		}
	}
	s.out(prometheus.MustNewConstHistogram(s.families[name].desc, h.Count, h.Sum, buckets, validLabels(labels)...))
}

// validLabels returns the values of labels as a registry takes them. Some are texts of others.
func validLabels(values []string) []string {
	return stats.Map(values, func(v string) string { return strings.ToValidUTF8(v, "\uFFFD") })
}

package collector

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// maxGatewayBackends is how many backends of a page have series of their own. Of more
// the first by name have, so that the series stay the same.
const maxGatewayBackends = 64

// Gateway is a gateway as its pages show it.
type Gateway struct {
	// Name is that of the configuration, Software the latest that is known; "" is none.
	Name, Software string
	// Statuses are those of its replicas.
	Statuses []page.Status
}

// NewGateways returns a collector of gateways, and of the gateway of each endpoint that is
// behind one. Both functions are called for each page.
func NewGateways(gateways func() []Gateway, behind func() map[string]string) prometheus.Collector {
	return newTable(gatewayFamilies(), func(s *sender) {
		for endpoint, gateway := range behind() {
			s.send("endpoint_gateway_info", 1, endpoint, gateway)
		}
		for _, g := range gateways() {
			for i := range g.Statuses {
				s.gateway(&g.Statuses[i], []string{g.Name, g.Software, boundModel(g.Statuses[i].Server)})
			}
		}
	})
}

// gatewayFamilies returns the families of gateways in the order of the documentation.
func gatewayFamilies() []Family {
	all := slices.Clone(sections()["gateways"])
	for _, row := range config.Vocabulary(config.GatewaySoftware) {
		if row.Kind == string(Histogram) {
			row.Help += " Buckets are those of the gateway; only +Inf if it reports only a sum and a count."
		}
		all = append(all, quantityOfGateway("gateway_", row, []string{"gateway", "software", "server"}))
	}
	all = append(all, sections()["backends"]...)
	for _, row := range config.Vocabulary(config.GatewaySoftware) {
		if !row.Backends {
			continue
		}
		row.Help = "As inference_gateway_" + row.Quantity.MetricName() + ", of one backend"
		switch {
		case row.Quantity == config.RequestsFinished:
			row.Help = "Requests that ended at a backend, as the gateway counts them, by how they ended; see inference_gateway_requests_total. Retries count once for each backend that was tried."
		case row.Kind == string(Histogram):
			row.Help += ", with the bucket +Inf only."
		default:
			row.Help += "."
		}
		all = append(all, quantityOfGateway("gateway_backend_", row, []string{"gateway", "software", "server", "backend"}))
	}
	return all
}

func quantityOfGateway(prefix string, row config.QuantityRow, labels []string) Family {
	f := Family{
		Name: namePrefix + prefix + row.Quantity.MetricName(), Group: GroupGateway, Type: Type(row.Kind), Unit: row.Unit, Labels: labels, Help: row.Help,
	}
	if row.Quantity == config.RequestsFinished {
		f.Labels, f.Values = append(labels, "finish"), config.Finishes()
	}
	return f
}

// gateway sends the metrics of one page, with the labels of all of its series.
func (s *sender) gateway(st *page.Status, labels []string) {
	s.send("gateway_up", workload.Number(st.State == page.Up), labels...)
	if !st.At.IsZero() {
		s.send("gateway_last_scrape_timestamp_seconds", workload.Unix(st.At), labels...)
		s.send("gateway_scrape_duration_seconds", st.Duration.Seconds(), labels...)
	}
	for _, reason := range scrapeReasons() {
		s.send("gateway_scrape_failures_total", float64(st.Failures[reason]), append(labels, string(reason))...)
	}
	all := st.Snapshot
	if all == nil {
		return
	}
	for _, q := range all.Missing {
		s.send("gateway_quantity_missing", 1, append(labels, string(q))...)
	}
	s.quantities("gateway_", all, labels, false)
	names := slices.Sorted(maps.Keys(all.Backends))
	for _, name := range names[:min(len(names), maxGatewayBackends)] {
		b, labels := all.Backends[name], append(labels, boundModel(name))
		if ready, ok := b.Values[config.BackendsReady]; ok {
			s.send("gateway_backend_ready", ready, labels...)
		}
		s.quantities("gateway_backend_", b, labels, true)
	}
}

// quantities sends those of a gateway, or of a backend.
func (s *sender) quantities(prefix string, of *page.Snapshot, labels []string, ofBackend bool) {
	for _, row := range config.Vocabulary(config.GatewaySoftware) {
		if ofBackend && !row.Backends {
			continue
		}
		name := prefix + row.Quantity.MetricName()
		if row.Quantity == config.RequestsFinished {
			for finish := range of.Requests {
				s.sendKnown(name, measure(Counter, of.Requests, finish), append(labels, finish)...)
			}
			continue
		}
		if row.Kind != string(Histogram) {
			s.sendKnown(name, measure(Type(row.Kind), of.Values, row.Quantity), labels...)
		} else if h := of.Histograms[row.Quantity]; isShown(h) {
			s.histogram(name, h, !ofBackend, labels...)
		}
	}
}

func isShown(h *page.Histogram) bool {
	return h != nil && len(h.Counts) == len(h.Bounds) && isMeasure(h.Sum)
}

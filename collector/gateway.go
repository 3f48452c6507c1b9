package collector

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
)

// maxGatewayBackends is how many backends of a page have series of their own. Of more
// the first by name have, so that the series stay the same.
const maxGatewayBackends = 64

// Gateways shows what the pages of gateways tell, and which endpoints are behind which.
// It is a prometheus.Collector, and safe for concurrent use.
type Gateways struct {
	families map[string]*described

	mu       sync.Mutex
	statuses map[string][]page.Status // by gateway
	software map[string]string        // that of the latest page, by gateway
	behind   map[string]string        // the gateway of an endpoint
}

// NewGateways returns a collector without gateways.
func NewGateways() *Gateways {
	return &Gateways{
		families: describe(gatewayFamilies()),
		statuses: map[string][]page.Status{}, software: map[string]string{},
	}
}

// Set replaces what is known of the replicas of a gateway. Software is that of the
// configuration, "" is unknown. The statuses must not be changed afterwards.
func (g *Gateways) Set(name, software string, statuses []page.Status) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range statuses {
		if s := snapshotOf(&statuses[i]); s != nil {
			software = s.Engine
			break
		}
	}
	g.statuses[name] = statuses
	g.software[name] = cmp.Or(software, g.software[name])
}

// Remove takes a gateway off the page.
func (g *Gateways) Remove(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.statuses, name)
	delete(g.software, name)
}

// SetBehind makes known behind which gateway each endpoint is that is behind one, by its
// name. The map must not be changed afterwards.
func (g *Gateways) SetBehind(all map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.behind = all
}

// Describe implements prometheus.Collector.
func (g *Gateways) Describe(out chan<- *prometheus.Desc) {
	for _, f := range g.families {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (g *Gateways) Collect(out chan<- prometheus.Metric) {
	g.mu.Lock()
	statuses, software, behind := maps.Clone(g.statuses), maps.Clone(g.software), g.behind
	g.mu.Unlock()
	for endpoint, gateway := range behind {
		g.families["endpoint_gateway_info"].send(out, 1, []string{endpoint, gateway})
	}
	for name, all := range statuses {
		for i := range all {
			page := gatewayPage{g.families, out, []string{name, software[name], boundModel(all[i].Server)}}
			page.reading(&all[i])
			if s := snapshotOf(&all[i]); s != nil {
				page.whole(s)
				page.backends(s)
			}
		}
	}
}

// The labels of the series of a gateway, and of one of its backends.
func gatewayLabels(own ...string) []string {
	return append([]string{"gateway", "software", "server"}, own...)
}

func backendLabels(own ...string) []string {
	return gatewayLabels(append([]string{"backend"}, own...)...)
}

// gatewayFamilies returns the families of gateways in the order of the documentation.
func gatewayFamilies() []Family {
	all := []Family{
		{
			Name: "endpoint_gateway_info", Type: Gauge, Labels: []string{"endpoint", "gateway"},
			Help: "Always 1. The gateway that the requests to the endpoint pass, as configured or discovered. Use it to join an endpoint with the metrics of its gateway.",
		},
		{
			Name: "gateway_up", Type: Gauge, Labels: gatewayLabels(),
			Help: "1 if the latest scrape of the page of the gateway's replica succeeded, 0 otherwise; see inference_gateway_scrape_failures_total for the reason. A gateway whose page fails may still pass requests on.",
		},
		{
			Name: "gateway_last_scrape_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: gatewayLabels(),
			Help: "Unix time at which the latest scrape of the page started, whether it succeeded or failed.",
		},
		{
			Name: "gateway_scrape_duration_seconds", Type: Gauge, Unit: "seconds", Labels: gatewayLabels(),
			Help: "Duration of the latest scrape of the page.",
		},
		{
			Name: "gateway_scrape_failures_total", Type: Counter, Labels: gatewayLabels("reason"), Values: config.Texts(scrapeReasons()),
			Help:  "Failed scrapes of the page, by reason.",
			Notes: "The host name does not resolve (dns), no connection (connect, tls), no reply in time (timeout), an HTTP error (http_status), or a page that is too large (too_large), not in a metrics format (format), has duplicate series (duplicate), has another metric type than the mapping expects (wrong_type), has histograms of over 100 buckets or of ever new ones (buckets) or belongs to unknown software (unmapped).",
		},
		{
			Name: "gateway_quantity_missing", Type: Gauge, Labels: gatewayLabels("quantity"), Values: config.Texts(config.Quantities(config.GatewaySoftware)),
			Help: "1 for a quantity that every page of this software should have and this one lacks: it was probably renamed, and the mapping must be changed. Absent for all other quantities.",
		},
	}
	for _, row := range config.Vocabulary(config.GatewaySoftware) {
		if row.Kind == string(Histogram) {
			row.Help += " Buckets are those of the gateway; only +Inf if it reports only a sum and a count."
		}
		all = append(all, quantityOfGateway("gateway_", row, gatewayLabels()))
	}
	all = append(all, Family{
		Name: "gateway_backend_ready", Type: Gauge, Labels: backendLabels(),
		Help: "1 if the gateway sends requests to the backend, 0 if it leaves it out. Absent where the page does not say so by backend; see inference_gateway_backends_ready. At most 64 backends of a page have series of their own.",
	})
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
		all = append(all, quantityOfGateway("gateway_backend_", row, backendLabels()))
	}
	for i := range all {
		all[i].Name, all[i].Group = namePrefix+all[i].Name, GroupGateway
	}
	return all
}

func quantityOfGateway(prefix string, row config.QuantityRow, labels []string) Family {
	f := Family{Name: prefix + row.Quantity.MetricName(), Type: Type(row.Kind), Unit: row.Unit, Labels: labels, Help: row.Help}
	if row.Quantity == config.RequestsFinished {
		f.Labels, f.Values = append(labels, "finish"), config.Finishes()
	}
	return f
}

// gatewayPage sends the metrics of one page.
type gatewayPage struct {
	families map[string]*described
	out      chan<- prometheus.Metric
	labels   []string // of the page
}

func (p *gatewayPage) with(own ...string) []string { return append(slices.Clone(p.labels), own...) }

func (p *gatewayPage) send(name string, v float64, labels []string) {
	p.families[name].send(p.out, v, labels)
}

// reading sends how the reading went.
func (p *gatewayPage) reading(st *page.Status) {
	p.send("gateway_up", number(st.State == page.Up), p.labels)
	if at := timeGauge(st.At); at.present {
		p.send("gateway_last_scrape_timestamp_seconds", at.value, p.labels)
		p.send("gateway_scrape_duration_seconds", st.Duration.Seconds(), p.labels)
	}
	for _, reason := range scrapeReasons() {
		p.send("gateway_scrape_failures_total", float64(st.Failures[reason]), p.with(string(reason)))
	}
}

// whole sends what the page shows of the gateway.
func (p *gatewayPage) whole(s *page.Snapshot) {
	for _, q := range s.Missing {
		p.send("gateway_quantity_missing", 1, p.with(string(q)))
	}
	p.quantities("gateway_", s, p.labels, false)
}

// backends sends what the page shows of each backend.
func (p *gatewayPage) backends(s *page.Snapshot) {
	names := slices.Sorted(maps.Keys(s.Backends))
	for _, name := range names[:min(len(names), maxGatewayBackends)] {
		b, labels := s.Backends[name], p.with(boundModel(name))
		if ready, ok := b.Values[config.BackendsReady]; ok {
			p.send("gateway_backend_ready", ready, labels)
		}
		p.quantities("gateway_backend_", b, labels, true)
	}
}

// quantities sends those of a gateway, or of a backend.
func (p *gatewayPage) quantities(prefix string, s *page.Snapshot, labels []string, ofBackend bool) {
	for _, row := range config.Vocabulary(config.GatewaySoftware) {
		if ofBackend && !row.Backends {
			continue
		}
		f := p.families[prefix+row.Quantity.MetricName()]
		if row.Quantity == config.RequestsFinished {
			for finish, n := range s.Requests {
				if isMeasure(n) {
					f.send(p.out, math.Round(n), append(slices.Clone(labels), finish))
				}
			}
			continue
		}
		v, ok := s.Values[row.Quantity]
		h := s.Histograms[row.Quantity]
		switch ok = ok && isMeasure(v); {
		case f.Type == Histogram && isShown(h):
			f.sendHistogram(p.out, h, !ofBackend, labels)
		case f.Type == Counter && ok:
			f.send(p.out, math.Round(v), labels)
		case f.Type == Gauge && ok:
			f.send(p.out, v, labels)
		}
	}
}

func isShown(h *page.Histogram) bool {
	return h != nil && len(h.Counts) == len(h.Bounds) && isMeasure(h.Sum)
}

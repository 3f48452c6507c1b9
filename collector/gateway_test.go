package collector

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
)

// everyGateway shows a gateway with everything that one may show.
func everyGateway() prometheus.Collector {
	all := &page.Snapshot{
		Engine: "acme", At: epoch, Values: map[config.Quantity]float64{}, Histograms: map[config.Quantity]*page.Histogram{},
		Requests: map[string]float64{"success": 1}, Missing: []config.Quantity{config.QueueTime}, Backends: map[string]*page.Snapshot{},
	}
	for _, q := range append(numbers(config.GatewaySoftware), config.PrefixCacheAsked, config.PrefixCacheHits) {
		all.Values[q] = 1
	}
	for _, q := range distributions(config.GatewaySoftware) {
		all.Histograms[q] = &page.Histogram{Bounds: []float64{0.5}, Counts: []uint64{1}, Count: 2, Sum: 3}
	}
	one := *all
	all.Backends["b"] = &one
	return oneGateway("g", map[string]string{"e": "g"}, page.Status{Server: "h:1", State: page.Up, At: epoch, Duration: time.Second, Snapshot: all})
}

// oneGateway shows a gateway of the software acme with replicas in front of endpoints.
func oneGateway(name string, behind map[string]string, replicas ...page.Status) prometheus.Collector {
	return NewGateways(func() []Gateway { return []Gateway{{name, "acme", replicas}} }, func() map[string]string { return behind })
}

// A gateway with two replicas, one of which is down, is shown by replica, with its
// backends; nothing is shown that the page does not have.
func TestGateway(t *testing.T) {
	g := oneGateway("router", map[string]string{"e1": "router", "e2": "router"}, []page.Status{
		{Server: "h1:1", State: page.Up, At: epoch, Duration: time.Second, Snapshot: &page.Snapshot{
			Engine:     "acme",
			Values:     map[config.Quantity]float64{config.RequestsWaiting: 3, config.Backends: 2, config.BackendsReady: 1},
			Histograms: map[config.Quantity]*page.Histogram{config.QueueTime: {Bounds: []float64{0.5}, Counts: []uint64{4}, Count: 5, Sum: 2.5}},
			Requests:   map[string]float64{"success": 7, "error": 2},
			Backends: map[string]*page.Snapshot{
				"a": {
					Values: map[config.Quantity]float64{config.BackendsReady: 1}, Requests: map[string]float64{"success": 7},
					Histograms: map[config.Quantity]*page.Histogram{config.TTFT: {Bounds: []float64{0.5}, Counts: []uint64{4}, Count: 5, Sum: 2.5}},
				},
				"b\xff": {Values: map[config.Quantity]float64{config.BackendsReady: 0}, Requests: map[string]float64{"error": 2}},
			},
		}},
		{Server: "h2:1", State: page.Down, Reason: page.ReasonConnect, Err: errors.New("refused"), At: epoch, Failures: map[page.Reason]uint64{page.ReasonConnect: 4}},
	}...)
	text := gatewayPageText(t, g)
	for _, line := range []string{
		`inference_endpoint_gateway_info{endpoint="e1",gateway="router"} 1`,
		`inference_endpoint_gateway_info{endpoint="e2",gateway="router"} 1`,
		`inference_gateway_up{gateway="router",server="h1:1",software="acme"} 1`,
		`inference_gateway_up{gateway="router",server="h2:1",software="acme"} 0`,
		`inference_gateway_scrape_failures_total{gateway="router",reason="connect",server="h2:1",software="acme"} 4`,
		`inference_gateway_requests_waiting{gateway="router",server="h1:1",software="acme"} 3`,
		`inference_gateway_backends{gateway="router",server="h1:1",software="acme"} 2`,
		`inference_gateway_backends_ready{gateway="router",server="h1:1",software="acme"} 1`,
		`inference_gateway_requests_total{finish="error",gateway="router",server="h1:1",software="acme"} 2`,
		`inference_gateway_queue_seconds_bucket{gateway="router",server="h1:1",software="acme",le="0.5"} 4`,
		`inference_gateway_queue_seconds_sum{gateway="router",server="h1:1",software="acme"} 2.5`,
		`inference_gateway_backend_ready{backend="a",gateway="router",server="h1:1",software="acme"} 1`,
		"inference_gateway_backend_ready{backend=\"b\uFFFD\",gateway=\"router\",server=\"h1:1\",software=\"acme\"} 0",
		`inference_gateway_backend_requests_total{backend="a",finish="success",gateway="router",server="h1:1",software="acme"} 7`,
		`inference_gateway_backend_ttft_seconds_count{backend="a",gateway="router",server="h1:1",software="acme"} 5`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, absent := range []string{"saturation", "ttft_seconds_bucket{backend=\"a\",gateway=\"router\",server=\"h1:1\",software=\"acme\",le=\"0.5\"}", "inference_gateway_requests_running"} {
		if strings.Contains(text, absent) {
			t.Errorf("the page has %s", absent)
		}
	}
}

// The series of backends are bounded.
func TestGatewayBackendsAreBounded(t *testing.T) {
	s := &page.Snapshot{Engine: "acme", Backends: map[string]*page.Snapshot{}}
	for i := range maxGatewayBackends + 10 {
		s.Backends[fmt.Sprint(i)] = &page.Snapshot{Values: map[config.Quantity]float64{config.BackendsReady: 1}}
	}
	g := oneGateway("g", nil, page.Status{Server: "h:1", State: page.Up, Snapshot: s})
	if n := strings.Count(gatewayPageText(t, g), "inference_gateway_backend_ready{"); n != maxGatewayBackends {
		t.Errorf("%d backends, want %d", n, maxGatewayBackends)
	}
}

// gatewayPageText returns the page of the gateways alone.
func gatewayPageText(t *testing.T, g prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(g)
	var b strings.Builder
	if err := NewExposition(registry).Write(&b, expfmt.FmtText); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

package fake

import (
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

// Gateways are two gateways: one of whose backends one is not ready and one fails
// requests, in front of two endpoints of Fleet, and one that cannot be read.
func Gateways() []*status.Gateway {
	router := &status.Gateway{
		Name: "router", Software: "litellm", State: status.GatewayDegraded, Why: "2 of 3 backends ready", Span: 285,
		Values: map[string]float64{
			"backends": 3, "backends_ready": 2, "requests_waiting": 12, "requests_running": 31, "saturation_ratio": 1.2,
			"routing_decisions_total": 81234, "cooldowns_total": 3, "engine_requests_waiting": 5, "rate_limit_remaining_requests": 480, "rate_limit_remaining_tokens": 125000,
		},
		Requests: map[string]float64{"success": 80112, "error": 921},
		Recent: &page.GatewayUse{
			Requests: new(1204.0), Failed: new(41.0), Decisions: new(1251.0), Cooldowns: new(1.0), Rejections: new(0.0), HitRatio: new(0.41), Queue: new(1.32), Routing: new(0.0021),
			TTFT: new(0.71), TPOT: new(0.021), Overhead: new(0.017), Retries: new(6.0), Fallbacks: new(9.0), FallbackFailures: new(2.0), DataLayerErrors: new(4.0),
			PromptTokens: new(812000.0), GenerationTokens: new(96000.0), CachedRatio: new(0.62),
		},
		Backends: []*status.Backend{
			{Name: "llama-70b-2", Ready: new(false), Recent: &page.GatewayUse{Requests: new(3.0), Failed: new(3.0), Decisions: new(3.0)}},
			{Name: "llama-70b-1", Ready: new(true), Values: map[string]float64{"requests_running": 19, "engine_requests_waiting": 4}, Recent: &page.GatewayUse{Requests: new(610.0), Failed: new(38.0), Decisions: new(640.0), TTFT: new(0.93)}},
			{Name: "llama-70b-0", Ready: new(true), Values: map[string]float64{"requests_running": 12, "engine_requests_waiting": 1, "uptime_ratio": 0.995, "ttft_median_seconds": 0.42, "median_tokens_per_second": 58}, Recent: &page.GatewayUse{Requests: new(591.0), Failed: new(0.0), Decisions: new(608.0), TTFT: new(0.49)}},
		},
		Pages: []*status.Server{{Server: "router:4000", URL: "http://router:4000/metrics", Engine: "litellm", At: now() - 4, State: page.Up}},
	}
	epp := &status.Gateway{
		Name: "epp", State: status.GatewayLost, Why: "no page can be read; epp:9090: connect: dial tcp 10.4.0.9:9090: connect: connection refused",
		Pages: []*status.Server{{Server: "epp:9090", URL: "http://epp:9090/metrics", At: now() - 4, State: page.Down, Reason: page.ReasonConnect, Error: "dial tcp 10.4.0.9:9090: connect: connection refused"}},
	}
	router.Endpoints, epp.Endpoints = []string{"chat-us", "judge"}, []string{"code/70b"}
	return []*status.Gateway{epp, router}
}

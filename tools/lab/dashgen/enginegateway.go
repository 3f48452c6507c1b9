package main

// perGateway groups the readings of a gateway's page, which several exporters may read.
const perGateway = "gateway, server"

// ofGateways leaves the gateways that endpoints of the board are behind. The
// expression is grouped by gateway.
func ofGateways(expr string) string {
	return expr + " and on (gateway) max by (gateway) (" + ofJob.of("inference_endpoint_gateway_info", `endpoint=~"$endpoint"`) + ")"
}

// gatewayRate is the rate of a counter of gateways over 5 minutes, each replica once,
// added up by labels.
func gatewayRate(by, name string) string {
	own := perGateway
	if by != "gateway" {
		own += ", " + by[len("gateway, "):]
	}
	return "sum by (" + by + ") (max by (" + own + ") (rate(" + ofJob.of(name) + "[5m])))"
}

// gatewayGauge is the reading of a gauge of each replica of a gateway.
func gatewayGauge(name string) string {
	return ofGateways("max by (" + perGateway + ") (" + ofJob.of(name) + ")")
}

// engineGateways is what gateways in front of the servers report.
func engineGateways() []Panel {
	const none = "no gateway, or it does not report it"
	return []Panel{
		{
			Title: "Queue of the gateway", Viz: TimeSeries, Unit: "none", Width: 12, Height: 8,
			What: "Requests that wait in the gateway before a backend has them, for each replica of it.", By: ByGateway,
			Worry:   "it grows: no backend has room, or none is ready.",
			Queries: []Query{{Expr: gatewayGauge("inference_gateway_requests_waiting"), Legend: "{{gateway}} {{server}}"}},
			Min:     ptr(0.0), NoValue: none,
		},
		{
			Title: "Backends of the gateway", Viz: TimeSeries, Unit: "none", Width: 12, Height: 8,
			What: "Backends that the gateway sends requests to, and all that it knows.", By: ByGateway,
			Worry: "fewer are ready than there are.", Alerts: []string{"InferenceGatewayWithoutBackends", "InferenceGatewayLost"},
			Queries: []Query{
				{Expr: gatewayGauge("inference_gateway_backends_ready"), Legend: "ready {{gateway}} {{server}}"},
				{Expr: gatewayGauge("inference_gateway_backends"), Legend: "all {{gateway}} {{server}}", Reference: true},
			},
			Min: ptr(0.0), NoValue: none,
		},
		{
			Title: "Requests by backend", Viz: TimeSeries, Unit: "reqps", Width: 12, Height: 8,
			What: "Requests that ended at each backend, by how they ended. Retries count at each backend that was tried.", By: ByGateway,
			Worry: "one backend has failures, or none of the requests.", Alerts: []string{"InferenceGatewayBackendFailing"},
			Queries: []Query{{Expr: ofGateways(gatewayRate("gateway, backend, finish", "inference_gateway_backend_requests_total")), Legend: "{{backend}} {{finish}}"}},
			Min:     ptr(0.0), NoValue: none,
		},
		{
			Title: "Prefix hits of the routing", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Share of what the gateway looked up in its index of prefixes that it expected in the cache of the backend it chose.", By: ByGateway,
			Worry: "it falls while the load is the same: prompts go to servers that do not have them.", Alerts: []string{"InferencePrefixCacheHitRateCollapse"},
			Queries: []Query{{
				Expr:   ofGateways(gatewayRate("gateway", "inference_gateway_prefix_cache_hits_total") + " / (" + gatewayRate("gateway", "inference_gateway_prefix_cache_queries_total") + " > 0)"),
				Legend: "{{gateway}}",
			}},
			Min: ptr(0.0), NoValue: none,
		},
		{
			Title: "TTFT as the gateway sees it", Viz: TimeSeries, Unit: "s", Width: 12, Height: 8,
			What: "Mean time to first token over 5 minutes as the gateway measures it, and the time before a backend was asked.", By: ByGateway,
			Worry: "the queue is most of it: add replicas.", Alerts: []string{"InferenceTTFTHigh"},
			Queries: []Query{
				{Expr: ofGateways(gatewayRate("gateway", "inference_gateway_ttft_seconds_sum") + " / (" + gatewayRate("gateway", "inference_gateway_ttft_seconds_count") + " > 0)"), Legend: "TTFT {{gateway}}"},
				{Expr: ofGateways(gatewayRate("gateway", "inference_gateway_queue_seconds_sum") + " / (" + gatewayRate("gateway", "inference_gateway_queue_seconds_count") + " > 0)"), Legend: "queue {{gateway}}"},
			},
			Min: ptr(0.0), NoValue: none,
		},
		{
			Title: "Pages of the gateway", Viz: TimeSeries, Unit: "none", Width: 12, Height: 8,
			What: "1 where the latest reading of the page of a replica succeeded.", By: ByGateway,
			Worry: "all replicas of a gateway are at 0.", Alerts: []string{"InferenceGatewayLost"},
			Queries: []Query{{Expr: gatewayGauge("inference_gateway_up"), Legend: "{{gateway}} {{server}}"}},
			Min:     ptr(0.0), Max: ptr(1.0), NoValue: none,
		},
	}
}

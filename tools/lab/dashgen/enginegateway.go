package main

import "slices"

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

// gatewayShare is one counter of gateways over another, by gateway.
func gatewayShare(of, all string) string {
	return ofGateways(gatewayRate("gateway", "inference_gateway_"+of) + " / (" + gatewayRate("gateway", "inference_gateway_"+all) + " > 0)")
}

// gatewayMean is the mean of a distribution of gateways.
func gatewayMean(name string) string { return gatewayShare(name+"_seconds_sum", name+"_seconds_count") }

const noGateway = "no gateway, or it does not report it"

// engineGateways is what gateways in front of the servers report.
func engineGateways() []Panel {
	return slices.Concat(gatewayBackends(), gatewayTokens(), gatewayTimes())
}

// gatewayBackends is who waits, and to which backends requests go.
func gatewayBackends() []Panel {
	return []Panel{
		{
			Title: "Queue of the gateway", Viz: TimeSeries, Unit: "none", Width: 12, Height: 8,
			What: "Requests that wait in the gateway before a backend has them, for each replica of it.", By: ByGateway,
			Worry:   "it grows: no backend has room, or none is ready.",
			Queries: []Query{{Expr: gatewayGauge("inference_gateway_requests_waiting"), Legend: "{{gateway}} {{server}}"}},
			Min:     ptr(0.0), NoValue: noGateway,
		},
		{
			Title: "Backends of the gateway", Viz: TimeSeries, Unit: "none", Width: 12, Height: 8,
			What: "Backends that the gateway sends requests to, and all that it knows; models that have a backend, where it reports only that.", By: ByGateway,
			Worry: "fewer are ready than there are.", Alerts: []string{"InferenceGatewayWithoutBackends", "InferenceGatewayLost"},
			Queries: []Query{
				{Expr: gatewayGauge("inference_gateway_backends_ready"), Legend: "ready {{gateway}} {{server}}"},
				{Expr: gatewayGauge("inference_gateway_backends"), Legend: "all {{gateway}} {{server}}", Reference: true},
				{Expr: gatewayGauge("inference_gateway_models_ready"), Legend: "models {{gateway}} {{server}}"},
			},
			Min: ptr(0.0), NoValue: noGateway,
		},
		{
			Title: "Requests by backend", Viz: TimeSeries, Unit: "reqps", Width: 12, Height: 8,
			What: "Requests that ended at each backend, by how they ended. Retries count at each backend that was tried.", By: ByGateway,
			Worry: "one backend has failures, or none of the requests.", Alerts: []string{"InferenceGatewayBackendFailing"},
			Queries: []Query{{Expr: ofGateways(gatewayRate("gateway, backend, finish", "inference_gateway_backend_requests_total")), Legend: "{{backend}} {{finish}}"}},
			Min:     ptr(0.0), NoValue: noGateway,
		},
		{
			Title: "Prefix hits of the routing", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Share of what the gateway looked up in its index of prefixes that it expected in the cache of the backend it chose.", By: ByGateway,
			Worry: "it falls while the load is the same: prompts go to servers that do not have them.", Alerts: []string{"InferencePrefixCacheHitRateCollapse"},
			Queries: []Query{{Expr: gatewayShare("prefix_cache_hits_total", "prefix_cache_queries_total"), Legend: "{{gateway}}"}},
			Min:     ptr(0.0), NoValue: noGateway,
		},
	}
}

// gatewayTokens is what requests through gateways consist of, and what is left for more of them.
func gatewayTokens() []Panel {
	return []Panel{
		{
			Title: "Cached prompt tokens", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Share of the prompt tokens of users' requests that servers or providers read from their cache, as they reported it in their replies.", By: ByGateway,
			Worry:   "it falls while the load is the same: prompts are computed, and paid, again.",
			Queries: []Query{{Expr: gatewayShare("cached_prompt_tokens_total", "prompt_tokens_total"), Legend: "{{gateway}}"}},
			Min:     ptr(0.0), NoValue: noGateway,
		},
		{
			Title: "Tokens through the gateway", Viz: TimeSeries, Unit: "none", Width: 12, Height: 8,
			What: "Tokens per second of prompts and of answers, as servers or providers reported them to the gateway.", By: ByGateway,
			Worry: "it falls while requests wait.",
			Queries: []Query{
				{Expr: ofGateways(gatewayRate("gateway", "inference_gateway_prompt_tokens_total")), Legend: "prompt {{gateway}}"},
				{Expr: ofGateways(gatewayRate("gateway", "inference_gateway_generation_tokens_total")), Legend: "answer {{gateway}}"},
			},
			Min: ptr(0.0), NoValue: noGateway,
		},
		{
			Title: "Retries and fallbacks", Viz: TimeSeries, Unit: "reqps", Width: 12, Height: 8,
			What: "Requests that the gateway sent once more, that it gave to another model or provider, and how many of the latter failed too.", By: ByGateway,
			Worry: "they rise: a backend or a provider fails, and users wait longer or get another model.", Alerts: []string{"InferenceGatewayBackendFailing"},
			Queries: []Query{
				{Expr: ofGateways(gatewayRate("gateway", "inference_gateway_retries_total")), Legend: "retries {{gateway}}"},
				{Expr: ofGateways(gatewayRate("gateway", "inference_gateway_fallbacks_total")), Legend: "fallbacks {{gateway}}"},
				{Expr: ofGateways(gatewayRate("gateway", "inference_gateway_fallback_failures_total")), Legend: "failed fallbacks {{gateway}}"},
			},
			Min: ptr(0.0), NoValue: noGateway,
		},
		{
			Title: "Metrics that the gateway could not read", Viz: TimeSeries, Unit: "none", Width: 12, Height: 8,
			What: "Failed reads of the metrics of backends per minute, and backends whose metrics are missing or too old.", By: ByGateway,
			Worry: "any: the gateway takes these backends for full, and requests wait although there is room.", Alerts: []string{"InferenceGatewayQueueSaturated"},
			Queries: []Query{
				{Expr: "60 * " + ofGateways(gatewayRate("gateway", "inference_gateway_data_layer_errors_total")), Legend: "failed reads {{gateway}}"},
				{Expr: gatewayGauge("inference_gateway_backends_stale"), Legend: "stale {{gateway}} {{server}}"},
			},
			Min: ptr(0.0), NoValue: noGateway,
		},
		{
			Title: "What is left of the quota", Viz: TimeSeries, Unit: "none", Width: 12, Height: 8,
			What: "Requests and tokens that providers behind the gateway still grant, as their latest replies reported; of several keys and deployments the smallest.", By: ByGateway,
			Worry: "it nears 0: requests will be refused.", Alerts: []string{"InferenceRateLimitRunningOut"},
			Queries: []Query{
				{Expr: gatewayGauge("inference_gateway_rate_limit_remaining_requests"), Legend: "requests {{gateway}} {{server}}"},
				{Expr: gatewayGauge("inference_gateway_rate_limit_remaining_tokens"), Legend: "tokens {{gateway}} {{server}}"},
			},
			Min: ptr(0.0), NoValue: noGateway,
		},
		{
			Title: "Uptime of providers", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Share of the requests of all its users that each provider behind a hosted gateway answered lately.", By: ByGateway,
			Worry: "the provider that your requests are pinned to falls, or all of them do.", Alerts: []string{"InferenceGatewayWithoutBackends"},
			Queries: []Query{{Expr: ofGateways("max by (gateway, backend) (" + ofJob.of("inference_gateway_backend_uptime_ratio") + ")"), Legend: "{{backend}}"}},
			Max:     ptr(1.0), NoValue: noGateway,
		},
	}
}

// gatewayTimes is how long gateways take, and whether their pages are read.
func gatewayTimes() []Panel {
	return []Panel{
		{
			Title: "TTFT as the gateway sees it", Viz: TimeSeries, Unit: "s", Width: 12, Height: 8,
			What: "Mean time to first token over 5 minutes as the gateway measures it, the time before a backend was asked, what the gateway itself adds, and the mean time per output token.", By: ByGateway,
			Worry: "the queue is most of it: add replicas.", Alerts: []string{"InferenceTTFTHigh"},
			Queries: []Query{
				{Expr: gatewayMean("ttft"), Legend: "TTFT {{gateway}}"},
				{Expr: gatewayMean("queue"), Legend: "queue {{gateway}}"},
				{Expr: gatewayMean("overhead"), Legend: "overhead {{gateway}}"},
				{Expr: gatewayMean("tpot"), Legend: "TPOT {{gateway}}"},
			},
			Min: ptr(0.0), NoValue: noGateway,
		},
		{
			Title: "Pages of the gateway", Viz: TimeSeries, Unit: "none", Width: 12, Height: 8,
			What: "1 where the latest reading of the page of a replica succeeded.", By: ByGateway,
			Worry: "all replicas of a gateway are at 0.", Alerts: []string{"InferenceGatewayLost"},
			Queries: []Query{{Expr: gatewayGauge("inference_gateway_up"), Legend: "{{gateway}} {{server}}"}},
			Min:     ptr(0.0), Max: ptr(1.0), NoValue: noGateway,
		},
	}
}

package alerts

// The alerts on gateways are about a gateway, not an endpoint: several endpoints are
// behind it, and the probes of these page.

// gatewayLost goes by all replicas. One that was not up in a day is not configured well,
// or is gone for good.
func gatewayLost() alert {
	return alert{
		name: "InferenceGatewayLost", severity: Warning, category: Availability,
		expr: `max by (gateway, $C) (inference_gateway_up) == 0
and on (gateway, $C)
max by (gateway, $C) (max_over_time(inference_gateway_up[1d])) == 1`,
		lasting: "5m",
		summary: "No metrics page of the gateway {{ $labels.gateway }} can be read any more.",
		description: "The page of every replica of the gateway fails, and one could be read in the last day. The gateway is down, or its page alone: endpoints behind it that fail as well page by themselves. " +
			"Look first at the reason in inference_gateway_scrape_failures_total.",
		board: "/d/ie-engine",
	}
}

// gatewayWithoutBackends asks all replicas, of which each may have its own view. A
// gateway that reports no number of all its backends had one that was ready before.
func gatewayWithoutBackends() alert {
	return alert{
		name: "InferenceGatewayWithoutBackends", severity: Warning, category: Availability,
		expr: `max by (gateway, $C) (inference_gateway_backends_ready) == 0
and on (gateway, $C)
(
  max by (gateway, $C) (inference_gateway_backends) > 0
  or
  max by (gateway, $C) (max_over_time(inference_gateway_backends_ready[1h])) > 0
)`,
		lasting: "2m",
		summary: "The gateway {{ $labels.gateway }} has no backend that is ready.",
		description: "The gateway has backends and sends requests to none of them: every request waits or is refused. Endpoints behind it whose probes fail page by themselves. " +
			"Look first at whether the servers are up: if they are, the health check of the gateway is wrong.",
		board: "/d/ie-engine",
	}
}

// gatewayBackendFailing takes what several exporters read from one replica once, and
// adds the replicas up.
func gatewayBackendFailing() alert {
	requests := func(matchers string) string {
		return "sum by (gateway, backend, $C) (max by (gateway, backend, server, finish, $C) (increase(inference_gateway_backend_requests_total" + matchers + "[10m])))"
	}
	failed := requests(`{finish="error"}`)
	return alert{
		name: "InferenceGatewayBackendFailing", severity: Warning, category: Availability,
		expr: `(
  ` + failed + `
  / on (gateway, backend, $C)
  ` + requests("") + `
) > 0.1
and on (gateway, backend, $C)
` + failed + ` > 5`,
		lasting: "5m",
		summary: "{{ $value | humanizePercentage }} of the requests of {{ $labels.gateway }} to its backend {{ $labels.backend }} fail.",
		description: "The gateway counts more than 10 % of the requests to this backend as failed, over 10 minutes. Retries at other backends may hide it from users, and take capacity. " +
			"Look first at whether the other backends of the gateway fail too: one alone is broken, all have a cause in common.",
		board: "/d/ie-engine",
	}
}

package alerts

// kvTransfersFailing is about prefill and decode on different servers. Some transfers
// fail with a server that restarts; a share of the requests is more than that. A server
// that does not count its requests is judged by the number alone.
func kvTransfersFailing() alert {
	failures := `max by ($E, server) (increase(inference_server_kv_transfer_failures_total[10m]))`
	return alert{
		name: "InferenceKVTransfersFailing", severity: Warning, category: Availability,
		expr: failures + ` > 5
unless on ($E, server)
` + failures + `
<= on ($E, server)
0.01 * max by ($E, server) (sum by ($E, server, instance, job) (increase(inference_server_requests_total[10m])))` + unlessDown(soon),
		lasting: "5m",
		summary: "{{ $labels.server }} ({{ $labels.endpoint }}) failed to transfer KV cache {{ $value | humanize }} times in 10 minutes.",
		description: "Prefill and decode run on different servers, and the KV cache does not get from one to the other: requests fail, or their prompts are computed a second time and TTFT grows. " +
			"Look first at whether one server is on all failed transfers, and at the network between them.",
		board: engineBoard,
	}
}

// requestsCorrupted fires for any: a sound model has none.
func requestsCorrupted() alert {
	return alert{
		name: "InferenceRequestsCorrupted", severity: Warning, category: Quality,
		expr:    `max by ($E, server) (increase(inference_server_corrupted_requests_total[30m])) > 0` + unlessDown(soon),
		summary: "{{ $labels.server }} ({{ $labels.endpoint }}) computed NaN for {{ $value | humanize }} requests in half an hour.",
		description: "The server found values that are no numbers where the probabilities of tokens should be. The answers of these requests are wrong, and status codes do not show it. " +
			"Look first at whether one replica alone has them, which points at a GPU, or all, which points at weights or kernels.",
		board: engineBoard,
	}
}

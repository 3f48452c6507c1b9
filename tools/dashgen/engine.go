package main

// perReplica groups the readings of a server's page, which several exporters
// may read.
const perReplica = "endpoint, model, server"

// replica names a series of one server.
const replica = "{{server}}"

// noPage stands where the servers tell nothing.
const noPage = "the servers do not tell"

func engineBoard() Board {
	return Board{
		UID: uidEngine, Title: "Inference / Servers",
		Question:  "Is the engine saturated, sick or short of replicas, and which replica is it?",
		Variables: []Variable{datasourceVariable(), jobVariable(), modelVariable(), endpointVariable(true)},
		Marks:     []Mark{alertMark(), changeMark(), serverMark()},
		From:      "now-3h",
		Rows: []Row{
			{Panels: engineReplicas()},
			{Title: "Saturation", Panels: append(engineSaturation(), engineCache()...)},
			{Title: "Latency as the servers see it", Panels: engineLatency()},
			{Title: "Throughput", Panels: engineThroughput()},
			{Title: "The pages and what is under the servers", Panels: enginePages()},
		},
	}
}

// each is the highest reading of a gauge for each server: the same one, where
// several exporters read it.
func each(name string) string { return "max by (" + perReplica + ") (" + ofEndpoint.of(name) + ")" }

// serverRate is the rate of a counter of the servers, added up by labels.
func serverRate(by, window, name string, matchers ...string) string {
	return perServer(by, "rate("+ofEndpoint.of(name, matchers...)+"["+window+"])")
}

func engineReplicas() []Panel {
	return []Panel{
		{
			Title: "Servers by the state of their page", Viz: TimeSeries, Unit: "none", Width: 8, Height: 7, Stacked: true,
			What: "Servers of the endpoint whose metrics page is read (up), not there (down), not to be trusted (unreadable) or of an unknown engine (unmapped); the mean of what several exporters find.", By: ByServer,
			Worry: "there are fewer in all than usual, or some are down.", Alerts: []string{"InferenceReplicaLost", "InferenceAllReplicasLost", "InferenceServerPageUnreadable"},
			Queries: []Query{{Expr: "avg by (endpoint, model, state) (" + ofEndpoint.of("inference_endpoint_servers") + ")", Legend: "{{state}}"}},
			Min:     ptr(0.0), NoValue: noPage,
		},
		{
			Title: "Each server", Viz: StateTimeline, Width: 8, Height: 7,
			What: "Whether the metrics page of each server is read.", By: ByServer,
			Worry: "one is failed. It tells of the page: the board Endpoint says whether users get answers.", Alerts: []string{"InferenceReplicaLost", "InferenceReplicaLossSlowsSurvivors"},
			Queries: []Query{{Expr: each("inference_server_up"), Legend: replica}},
			States:  upStates, NoValue: noPage,
		},
		{
			Title: "Since the last progress", Viz: TimeSeries, Unit: "s", Width: 8, Height: 7,
			What: "Time for which a server with requests has generated nothing. Having nothing to do counts as progress.", By: ByServer,
			Worry: "it is over two minutes: the engine hangs.", Alerts: []string{"InferenceServerHung"},
			Queries: []Query{{Expr: "max by (" + perReplica + ") (" + ofEndpoint.of("inference_server_last_scrape_timestamp_seconds") + " - " + ofEndpoint.of("inference_server_last_progress_timestamp_seconds") + ")", Legend: replica}},
			Steps:   []Step{{0, "transparent"}, {120, "red"}}, Min: ptr(0.0), NoValue: noPage,
		},
	}
}

func engineSaturation() []Panel {
	running := each("inference_server_requests_running")
	return []Panel{
		{
			Title: "Requests running and waiting", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8,
			What: "Requests that each server works on, and that wait in its queue.", By: ByServer,
			Worry: "requests wait for longer than a moment: TTFT grows before anything fails.", Alerts: []string{"InferenceQueueGrowing"},
			Queries: []Query{
				{Expr: running, Legend: "running " + replica},
				{Expr: each("inference_server_requests_waiting"), Legend: "waiting " + replica},
			},
			Min: ptr(0.0), NoValue: noPage,
		},
		{
			Title: "Expected wait", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Requests that wait, by the requests that end each second: how long a new request would wait. The dashed line is the objective of TTFT.", By: ByServer,
			Worry: "it is more than half of the objective.", Alerts: []string{"InferenceQueueGrowing"},
			Queries: []Query{
				{
					Expr: perServer("model", "avg_over_time("+ofEndpoint.of("inference_server_requests_waiting")+"[5m])") + " / " +
						"sum by (model) (max by (endpoint, model, server, finish) (rate(" + ofEndpoint.of("inference_server_requests_total") + "[5m])))", Legend: "wait {{model}}",
				},
				{Expr: "min(" + ofEndpoint.of("inference_slo_threshold_seconds", `slo="ttft"`) + ")", Legend: "objective of TTFT", Limit: true},
			},
			Min: ptr(0.0), NoValue: noPage,
		},
		{
			Title: "KV cache in use", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the KV cache in use on each server, and the mean of all.", By: ByServer,
			Worry: "it is near 100 % and requests wait. High use alone is normal.", Alerts: []string{"InferenceKVCacheSaturated"},
			Queries: []Query{
				{Expr: each("inference_server_kv_cache_usage_ratio"), Legend: replica},
				{Expr: "avg(" + each("inference_server_kv_cache_usage_ratio") + ")", Legend: "mean"},
			},
			Min: ptr(0.0), Max: ptr(1.0), NoValue: noPage,
		},
	}
}

// engineCache is what becomes of the KV cache and of the balance that its
// reuse asks for.
func engineCache() []Panel {
	hits := "inference_server_prefix_cache_hits_total"
	queries := "inference_server_prefix_cache_queries_total"
	ratio := perServer("model", "rate("+ofEndpoint.of(hits)+"[30m])") + " / " + perServer("model", "rate("+ofEndpoint.of(queries)+"[30m])")
	dayAgo := perServer("model", "rate("+ofEndpoint.of(hits)+"[30m] offset 1d)") + " / " + perServer("model", "rate("+ofEndpoint.of(queries)+"[30m] offset 1d)")
	running := each("inference_server_requests_running")
	return []Panel{
		{
			Title: "Preemptions and evictions", Viz: TimeSeries, Unit: "cpm", Width: 8, Height: 8,
			What: "Requests a minute that were thrown out of the KV cache to be computed again, and thousands of cached tokens a minute that had to make room.", By: ByServer,
			Worry: "preemptions go on: the cache is too small for the load.", Alerts: []string{"InferencePreemptionsHigh", "InferenceKVCacheSaturated"},
			Queries: []Query{
				{Expr: "60 * " + serverRate("server", "5m", "inference_server_preemptions_total"), Legend: "preemptions " + replica},
				{Expr: "0.06 * " + serverRate("server", "5m", "inference_server_kv_cache_evicted_tokens_total"), Legend: "1000 evicted tokens " + replica},
			},
			Min: ptr(0.0), NoValue: noPage,
		},
		{
			Title: "Prefix cache hits, now and a day ago", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of what the prefix cache was asked for that it had, over 30 minutes, of all servers; and at the same time a day ago.", By: ByServer,
			Worry: "it is half of what it was: the cache is lost, the prompts changed, or the router no longer sends like to like.", Alerts: []string{"InferencePrefixCacheHitRateCollapse"},
			Queries: []Query{{Expr: ratio, Legend: "now {{model}}"}, {Expr: dayAgo, Legend: "a day ago {{model}}"}},
			Min:     ptr(0.0), Max: ptr(1.0), NoValue: noPage,
		},
		{
			Title: "Balance of the replicas", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8,
			What: "Requests on the busiest server over the mean of all: 1 is balanced.", By: ByServer,
			Worry:   "it stays over 2 under load: the router is stuck, or sends like to like too faithfully.",
			Queries: []Query{{Expr: "max by (model) (" + running + ") / (avg by (model) (" + running + ") > 0)", Legend: "busiest over mean {{model}}"}},
			Min:     ptr(0.0), NoValue: "nothing runs",
		},
	}
}

func engineLatency() []Panel {
	server := func(title, name, what, worry string, alerts ...string) Panel {
		return Panel{
			Title: title, Viz: TimeSeries, Unit: "s", Width: 8, Height: 8, What: what, By: ByServer, Worry: worry, Alerts: alerts,
			Queries: []Query{
				{Expr: classicQuantile(0.5, "model", "5m", name, ofEndpoint), Legend: "p50 {{model}}"},
				{Expr: classicQuantile(0.95, "model", "5m", name, ofEndpoint), Legend: "p95 {{model}}"},
				{Expr: classicQuantile(0.99, "model", "5m", name, ofEndpoint), Legend: "p99 {{model}}"},
			},
			Min: ptr(0.0), NoValue: noPage,
		}
	}
	const bounds = " Over 5 minutes, in the engine's own buckets: the panel Requests a second says how many requests that is."
	return []Panel{
		{
			Title: "Queue, prefill, decode", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8, Stacked: true,
			What: "Mean time of requests in the queue, in prefill and in decode, over 5 minutes.", By: ByServer,
			Worry: "queue grows: saturated. prefill: longer prompts or fewer hits. decode: longer answers or larger batches.", Alerts: []string{"InferenceQueueGrowing"},
			Queries: []Query{
				{Expr: classicMean("model", "5m", "inference_server_queue_seconds", ofEndpoint), Legend: "queue {{model}}"},
				{Expr: classicMean("model", "5m", "inference_server_prefill_seconds", ofEndpoint), Legend: "prefill {{model}}"},
				{Expr: classicMean("model", "5m", "inference_server_decode_seconds", ofEndpoint), Legend: "decode {{model}}"},
			},
			Min: ptr(0.0), NoValue: noPage,
		},
		server("TTFT of all requests", "inference_server_ttft_seconds", "Time to first token of all requests, queue included, network left out."+bounds, "it grows like that of the probes: users feel it too.", "InferenceClientServerGap"),
		server("TPOT of all requests", "inference_server_tpot_seconds", "Time per output token of all requests."+bounds, "it grows with the requests that run: the batch is large.", "InferenceDecodeSpeedCollapse"),
		server("Time between tokens", "inference_server_inter_token_seconds", "Time between two tokens of all requests."+bounds, "p99 is far above p50: prefills stall the decoding of others.", "InferenceDecodeSpeedCollapse"),
		server("Duration of all requests", "inference_server_request_duration_seconds", "Duration of all requests, queue included."+bounds, "it grows and tokens for each request do not.", "InferenceE2EFastBurn"),
		server("Time in the queue", "inference_server_queue_seconds", "Time that requests spent in the queue."+bounds, "p50 is not near 0: everyone waits.", "InferenceQueueGrowing"),
	}
}

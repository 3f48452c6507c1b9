package main

import "slices"

// perReplica groups the readings of a server's page, which several exporters
// may read.
const perReplica = "endpoint, model, server"

// replica names a series of one server.
const replica = "{{server}}"

// noPage is shown where no page of a server is read.
const noPage = "no page of the servers has it"

func engineBoard() Board {
	return Board{
		UID: uidEngine, Title: "Inference / Servers",
		Question:  "Is the engine saturated, faulty or short of replicas, and which replica is it?",
		Variables: []Variable{datasourceVariable(), jobVariable(), modelVariable(), endpointVariable(true)},
		Marks:     []Mark{alertMark(), changeMark(), serverMark()},
		From:      "now-3h",
		Rows: []Row{
			{Panels: append([]Panel{engineNow()}, engineReplicas()...)},
			{Title: "Saturation", Panels: append(engineSaturation(), engineCache()...)},
			{Title: "Latency as the servers see it", Panels: engineLatency()},
			{Title: "Throughput", Panels: engineThroughput()},
			{Title: "Parts of the latency", Collapsed: true, Panels: engineLatencyParts()},
			{Title: "What is asked, and how servers are set up", Collapsed: true, Panels: engineRequests()},
			{Title: "Steps of the engine, caches and disaggregation", Collapsed: true, Panels: append(engineInside(), engineMemory()...)},
			{Title: "The gateway in front", Collapsed: true, Panels: engineGateways()},
			{Title: "The pages and what is under the servers", Collapsed: true, Panels: enginePages()},
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

// engineNow is the answer to the board's question in figures.
func engineNow() Panel {
	failed := "sum(max by (" + perReplica + ", finish) (rate(" + ofEndpoint.of("inference_server_requests_total", `finish="error"`) + "[5m])))"
	return Panel{
		Title: "Now", Viz: Stat, Width: 24, Height: 4, Spark: true,
		What: "Servers whose page is read and those whose page is not; requests that run and that wait on all of them; how long a new one would wait; the KV cache of the fullest server; and the requests a minute that end with an error. Behind each figure is its course; a dash says that no page of the servers has it now.", By: ByServer,
		Worry: "one is not read, requests wait for longer than a moment, or any end with an error.", Alerts: []string{"InferenceReplicaLost", "InferenceQueueSaturated", "InferenceKVCacheSaturated"},
		Queries: []Query{
			{Expr: "sum(" + each("inference_server_up") + ")", Legend: "servers read"},
			{Expr: "sum(" + each("inference_server_up") + " == bool 0)", Legend: "not read", Steps: []Step{{1, "red"}}},
			{Expr: "sum(" + each("inference_server_requests_running") + ")", Legend: "running"},
			{Expr: "sum(" + each("inference_server_requests_waiting") + ")", Legend: "waiting"},
			{Expr: "max(" + expectedWait() + ")", Legend: "wait of a new one", Unit: "s"},
			{Expr: "max(" + each("inference_server_kv_cache_usage_ratio") + ")", Legend: "fullest KV cache", Unit: "percentunit"},
			{Expr: "60 * " + failed, Legend: "errors a minute", Unit: "none"},
		},
		Min: ptr(0.0), NoValue: noPage,
	}
}

// expectedWait is how long a new request would wait: those that wait, by those that
// end each second.
func expectedWait() string {
	return perServer("model", "avg_over_time("+ofEndpoint.of("inference_server_requests_waiting")+"[5m])") + " / " + endedRate("5m")
}

// endedRate is the requests a second that end on the servers of each model.
func endedRate(window string) string {
	return "(sum by (model) (max by (" + perReplica + ", finish) (rate(" + ofEndpoint.of("inference_server_requests_total") + "[" + window + "]))) > 0)"
}

func engineReplicas() []Panel {
	const rows = 10
	return []Panel{
		{
			Title: "Servers by the state of their page", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8, Stacked: true,
			What: "Servers of the endpoint whose metrics page is read (up), not there (down), not to be trusted (unreadable) or of an unknown engine (unmapped); the mean over several exporters.", By: ByServer,
			Worry: "there are fewer in all than usual, or some are down.", Alerts: []string{"InferenceReplicaLost", "InferenceAllReplicasLost", "InferenceServerPageUnreadable"},
			Queries: []Query{{Expr: "avg by (endpoint, model, state) (" + ofEndpoint.of("inference_endpoint_servers") + ")", Legend: "{{state}}"}},
			Named:   pageColors, Min: ptr(0.0), NoValue: noPage,
		},
		{
			Title: "Each server", Viz: StateTimeline, Width: 8, Height: 8, MaxRows: rows,
			What: "Whether the metrics page of each server is read; the ten servers that failed most in the time range.", By: ByServer,
			Worry: "one is failed. It is about the page: the board Endpoint shows whether users get answers.", Alerts: []string{"InferenceReplicaLost", "InferenceReplicaLossSlowsSurvivors"},
			Queries: []Query{{Expr: worst(rows, perReplica, each("inference_server_up"), "1 - avg_over_time("+ofEndpoint.of("inference_server_up")+"[$__range] @ end())"), Legend: replica}},
			States:  upStates, NoValue: noPage,
		},
		{
			Title: "Since the last progress", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Time for which a server with requests has generated nothing. An idle server counts as making progress.", By: ByServer,
			Worry: "it is over two minutes: the engine hangs.", Alerts: []string{"InferenceServerHung"},
			Queries: []Query{{Expr: "clamp_min(max by (" + perReplica + ") (" + ofEndpoint.of("inference_server_last_scrape_timestamp_seconds") + " - " + ofEndpoint.of("inference_server_last_progress_timestamp_seconds") + "), 0)", Legend: replica}},
			Steps:   []Step{{120, "red"}}, Min: ptr(0.0), NoValue: noPage,
		},
	}
}

func engineSaturation() []Panel {
	running := each("inference_server_requests_running")
	return []Panel{
		{
			Title: "Requests running and waiting", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8,
			What: "Requests that each server works on, and that wait in its queue.", By: ByServer,
			Worry: "requests wait for longer than a moment: TTFT grows before anything fails.", Alerts: []string{"InferenceQueueSaturated"},
			Queries: []Query{
				{Expr: running, Legend: "running " + replica},
				{Expr: each("inference_server_requests_waiting"), Legend: "waiting " + replica},
			},
			Min: ptr(0.0), NoValue: noPage,
		},
		{
			Title: "Expected wait", Viz: TimeSeries, Unit: "s", Width: 8, Height: 8,
			What: "Requests that wait, by the requests that end each second: how long a new request would wait. The dashed line is the objective of TTFT.", By: ByServer,
			Worry: "it is more than half of the objective.", Alerts: []string{"InferenceQueueSaturated"},
			Queries: []Query{
				{Expr: expectedWait(), Legend: "wait {{model}}"},
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
			Min: ptr(0.0), NoValue: noPage,
		},
	}
}

// engineCache is how the KV cache is used, and how its reuse unbalances the
// replicas.
func engineCache() []Panel {
	hits := "inference_server_prefix_cache_hits_total"
	queries := "inference_server_prefix_cache_queries_total"
	ratio := perServer("model", "rate("+ofEndpoint.of(hits)+"[30m])") + " / " + "(" + perServer("model", "rate("+ofEndpoint.of(queries)+"[30m])") + " > 0)"
	dayAgo := perServer("model", "rate("+ofEndpoint.of(hits)+"[30m] offset 1d)") + " / " + "(" + perServer("model", "rate("+ofEndpoint.of(queries)+"[30m] offset 1d)") + " > 0)"
	running := each("inference_server_requests_running")
	return []Panel{
		{
			Title: "Preemptions and evictions", Viz: TimeSeries, Unit: "cpm", Width: 8, Height: 8,
			What: "Requests a minute that were thrown out of the KV cache to be computed again, and thousands of cached tokens a minute that had to make room.", By: ByServer,
			Worry: "preemptions last: the cache is too small for the load.", Alerts: []string{"InferencePreemptionsHigh", "InferenceKVCacheSaturated"},
			Queries: []Query{
				{Expr: "60 * " + serverRate("server", "5m", "inference_server_preemptions_total"), Legend: "preemptions " + replica},
				{Expr: "0.06 * " + serverRate("server", "5m", "inference_server_kv_cache_evicted_tokens_total"), Legend: "1000 evicted tokens " + replica},
			},
			Min: ptr(0.0), NoValue: noPage,
		},
		{
			Title: "Prefix cache hits, now and a day ago", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of what the prefix cache was asked for that it had, over 30 minutes, of all servers; and at the same time a day ago.", By: ByServer,
			Worry: "it is half of what it was: the cache is lost, the prompts changed, or the router no longer sends similar prompts to the same replica.", Alerts: []string{"InferencePrefixCacheHitRateCollapse"},
			Queries: []Query{{Expr: ratio, Legend: "now {{model}}"}, {Expr: dayAgo, Legend: "a day ago {{model}}", Reference: true}},
			Min:     ptr(0.0), NoValue: noPage,
		},
		{
			Title: "Balance of the replicas", Viz: TimeSeries, Unit: "none", Width: 8, Height: 8,
			What: "Requests on the busiest server over the mean of all: 1 is balanced.", By: ByServer,
			Worry:   "it stays over 2 under load: the router is stuck, or prefers cached prefixes too strongly.",
			Queries: []Query{{Expr: "max by (model) (" + running + ") / (avg by (model) (" + running + ") > 0)", Legend: "busiest over mean {{model}}"}},
			Min:     ptr(0.0), NoValue: "nothing runs",
		},
	}
}

// engineQuantiles is the course of a latency of all requests, and beside it its
// quantiles over the whole time range, which can be quoted.
func engineQuantiles(title, name, what, worry string, alerts ...string) []Panel {
	course, whole := make([]Query, 0, 3), make([]Query, 0, 3)
	for _, q := range []struct {
		of    float64
		name  string
		color string
	}{{0.5, "p50", "blue"}, {0.9, "p90", "purple"}, {0.99, "p99", "orange"}} {
		course = append(course, Query{Expr: classicQuantile(q.of, "model", "5m", name, ofEndpoint), Legend: q.name + " {{model}}", Color: q.color})
		whole = append(whole, Query{Expr: classicQuantile(q.of, "model", "$__range", name, ofEndpoint), Legend: q.name})
	}
	const inFirst = "none: all are shorter than the engine's first bucket, or no page of the servers has it"
	return []Panel{
		{
			Title: title, Viz: TimeSeries, Unit: "s", Width: 9, Height: 8,
			What: what + " Over 5 minutes, in the engine's own buckets; a quantile in the first of them is not known and has no line. The panel Requests a second says how many requests that is.", By: ByServer, Worry: worry, Alerts: alerts,
			Queries: course, Min: ptr(0.0), NoValue: inFirst,
		},
		{
			Title: title + ", whole range", Viz: Stat, Unit: "s", Width: 3, Height: 8,
			What: "The quantiles of the panel to the left over all requests of the chosen time range.", By: ByServer, Worry: "they are over what users were promised.", Alerts: alerts,
			Queries: whole, NoValue: inFirst,
		},
	}
}

func engineLatency() []Panel {
	return slices.Concat([]Panel{
		{
			Title: "Queue, prefill, decode", Viz: TimeSeries, Unit: "s", Width: 24, Height: 8, Stacked: true,
			What: "Mean time of requests in the queue, in prefill and in decode, over 5 minutes.", By: ByServer,
			Worry: "queue grows: saturated. prefill: longer prompts or fewer hits. decode: longer answers or larger batches.", Alerts: []string{"InferenceQueueSaturated"},
			Queries: []Query{
				{Expr: classicMean("model", "5m", "inference_server_queue_seconds", ofEndpoint), Legend: "queue {{model}}", Color: "orange"},
				{Expr: classicMean("model", "5m", "inference_server_prefill_seconds", ofEndpoint), Legend: "prefill {{model}}", Color: "light-orange"},
				{Expr: classicMean("model", "5m", "inference_server_decode_seconds", ofEndpoint), Legend: "decode {{model}}", Color: "green"},
			},
			Min: ptr(0.0), NoValue: noPage,
		},
	},
		engineQuantiles("TTFT of all requests", "inference_server_ttft_seconds", "Time to first token of all requests, queue included, network left out.", "it grows like that of the probes: users feel it too.", "InferenceClientServerGap"),
		engineQuantiles("TPOT of all requests", "inference_server_tpot_seconds", "Time per output token of all requests.", "it grows with the requests that run: the batch is large.", "InferenceDecodeSpeedCollapse"),
	)
}

// engineLatencyParts is what the latency of all requests consists of.
func engineLatencyParts() []Panel {
	return slices.Concat(
		engineQuantiles("Time in the queue", "inference_server_queue_seconds", "Time that requests spent in the queue.", "p50 has a line: everyone waits.", "InferenceQueueSaturated"),
		engineQuantiles("Time between tokens", "inference_server_inter_token_seconds", "Time between two tokens of all requests.", "p99 is far above p50: prefills stall the decoding of others.", "InferenceDecodeSpeedCollapse"),
		engineQuantiles("Duration of all requests", "inference_server_request_duration_seconds", "Duration of all requests, queue included.", "it grows and tokens for each request do not."),
	)
}

func engineThroughput() []Panel {
	running := perServer("model", ofEndpoint.of("inference_server_requests_running"))
	return []Panel{
		{
			Title: "Tokens a second", Viz: TimeSeries, Unit: "suffix: tok/s", Width: 8, Height: 8,
			What: "Prompt tokens taken and tokens generated by all servers. Some engines count when a request ends, so that the lines come in steps.", By: ByServer,
			Worry:   "it falls while requests run: it follows demand otherwise.",
			Queries: []Query{{Expr: serverRate("model", "5m", "inference_server_prompt_tokens_total"), Legend: "prompt {{model}}"}, {Expr: serverRate("model", "5m", "inference_server_generation_tokens_total"), Legend: "generated {{model}}"}},
			Min:     ptr(0.0), NoValue: noPage,
		},
		{
			Title: "Tokens a second for each running request", Viz: TimeSeries, Unit: "suffix: tok/s", Width: 8, Height: 8,
			What: "Tokens generated each second by the requests that run: how fast one of them is served.", By: ByServer,
			Worry: "it is half of last week's at a similar load.", Alerts: []string{"InferenceDecodeSpeedCollapse"},
			Queries: []Query{{Expr: serverRate("model", "5m", "inference_server_generation_tokens_total") + " / (" + running + " > 0)", Legend: "{{model}}"}},
			Min:     ptr(0.0), NoValue: "nothing runs",
		},
		{
			Title: "Requests a second", Viz: TimeSeries, Unit: "reqps", Width: 8, Height: 8, Stacked: true,
			What: "Requests that ended, by how: at a stop token, at the limit of tokens, given up by the client, with an error.", By: ByServer,
			Worry: "abort or error grow: clients give up, or the engine fails.", Alerts: []string{"InferenceEndpointFailing"},
			Queries: []Query{{Expr: "sum by (finish) (max by (endpoint, model, server, finish) (rate(" + ofEndpoint.of("inference_server_requests_total") + "[5m])))", Legend: "{{finish}}"}},
			Named:   finishColors, Min: ptr(0.0), NoValue: noPage,
		},
	}
}

// engineRequests is what the requests are like, and how much of them servers take.
func engineRequests() []Panel {
	return []Panel{
		{
			Title: "Tokens for each request", Viz: TimeSeries, Unit: "suffix: tok", Width: 8, Height: 8,
			What: "Mean prompt and mean answer of the requests that ended in 15 minutes.", By: ByServer,
			Worry: "it changes with the latency: then the requests are others, and the server is not to blame.",
			Queries: []Query{
				{Expr: serverRate("model", "15m", "inference_server_prompt_tokens_total") + " / " + endedRate("15m"), Legend: "prompt {{model}}"},
				{Expr: serverRate("model", "15m", "inference_server_generation_tokens_total") + " / " + endedRate("15m"), Legend: "answer {{model}}"},
			},
			Min: ptr(0.0), NoValue: noPage,
		},
		{
			Title: "Accepted draft tokens", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the tokens that speculative decoding proposed and the model accepted, over 15 minutes.", By: ByServer,
			Worry:   "it falls: decoding is slower than it was, at the same load.",
			Queries: []Query{{Expr: serverRate("model", "15m", "inference_server_spec_decode_accepted_tokens_total") + " / (" + serverRate("model", "15m", "inference_server_spec_decode_draft_tokens_total") + " > 0)", Legend: "{{model}}"}},
			Min:     ptr(0.0), NoValue: "no speculative decoding",
		},
		{
			Title: "Room", Viz: Table, Width: 8, Height: 8,
			What: "Tokens that fit into the KV cache of each server, and the longest prompt and answer together that it takes.", By: ByServer,
			Worry: "replicas differ: one was started with other settings.",
			Queries: []Query{
				{Expr: each("inference_server_kv_cache_capacity_tokens")},
				{Expr: each("inference_server_context_length_tokens")},
			},
			Columns: []Column{
				{Label: "server", Title: "Server"},
				{Label: "model", Title: "Model"},
				{Query: 0, Title: "KV cache", Unit: "suffix: tok", Width: 120},
				{Query: 1, Title: "Context", Unit: "suffix: tok", Width: 120},
			},
			Sort: []Order{{Title: "Server"}}, NoValue: noPage,
		},
		{
			Title: "How the servers were started", Viz: Table, Width: 16, Height: 8,
			What: "Settings that the pages of the servers show, such as data types, as the engine writes them.", By: ByServer,
			Worry: "servers of one endpoint have different values.", Alerts: []string{"InferenceReplicasDiffer"},
			Queries: []Query{{Expr: "max by (endpoint, server, setting, value) (" + ofEndpoint.of("inference_server_setting_info") + ")"}},
			Columns: []Column{{Label: "setting", Title: "Setting"}, {Label: "value", Title: "Value"}, {Label: "server", Title: "Server"}, {Label: "endpoint", Title: "Endpoint"}},
			Sort:    []Order{{Title: "Setting"}, {Title: "Value"}}, NoValue: "no page shows any",
		},
		{
			Title: "Settings that differ", Viz: Table, Width: 8, Height: 8,
			What: "Settings in which servers of an endpoint have differed for over 30 minutes.", By: ByServer,
			Worry: "there is any.", Alerts: []string{"InferenceReplicasDiffer"},
			Queries: []Query{{Expr: "max by (endpoint, setting) (" + ofEndpoint.of("inference_endpoint_replicas_differ") + ") == 1"}},
			Columns: []Column{{Label: "endpoint", Title: "Endpoint"}, {Label: "setting", Title: "Setting"}},
			Sort:    []Order{{Title: "Endpoint"}}, NoValue: "none differ",
		},
	}
}

func enginePages() []Panel {
	whole := "max by (uuid, gpu, instance, job) (inference_gpu_info) and on (uuid) max by (uuid) (" + ofEndpoint.of("inference_endpoint_gpu_info") + ")"
	parts := "max by (mig_uuid, uuid, gpu, instance, job) (inference_gpu_mig_info) and on (mig_uuid) max by (mig_uuid) (" + ofEndpoint.of("inference_endpoint_gpu_info", `mig_uuid!=""`) + ")"
	return []Panel{
		{
			Title: "Age of the readings", Viz: TimeSeries, Unit: "s", Width: 12, Height: 8,
			What: "Time since the latest reading of each server's page began, and how long it took.", By: ByExporter,
			Worry: "the age grows past a few intervals: the other panels are old.", Alerts: []string{"InferenceServerPageUnreadable"},
			Queries: []Query{
				{Expr: "time() - " + each("inference_server_last_scrape_timestamp_seconds"), Legend: "age " + replica},
				{Expr: each("inference_server_scrape_duration_seconds"), Legend: "duration " + replica},
			},
			Min: ptr(0.0), NoValue: noPage,
		},
		{
			Title: "Readings that failed", Viz: TimeSeries, Unit: "cpm", Width: 12, Height: 8, Stacked: true,
			What: "Readings a minute of a server's page that failed, by reason.", By: ByExporter,
			Worry: "a reason lasts.", Alerts: []string{"InferenceServerPageUnreadable"},
			Queries: []Query{{Expr: "60 * " + sumRate("reason", "$__rate_interval", "inference_server_scrape_failures_total", ofEndpoint) + " > 0", Legend: "{{reason}}"}},
			Min:     ptr(0.0), NoValue: "none, if a page of the servers is read",
		},
		{
			Title: "Quantities that are missing", Viz: Table, Width: 12, Height: 8,
			What: "Quantities that the engine should report and does not: a new version has probably renamed a series.", By: ByExporter,
			Worry: "there is any: the panels above are blank for it.", Alerts: []string{"InferenceServerQuantityMissing"},
			Queries: []Query{{Expr: "max by (server, engine, quantity) (" + ofEndpoint.of("inference_server_quantity_missing") + ") == 1"}},
			Columns: []Column{{Label: "server", Title: "Server"}, {Label: "engine", Title: "Engine"}, {Label: "quantity", Title: "Quantity"}},
			Sort:    []Order{{Title: "Server"}}, NoValue: "none is missing",
		},
		{
			Title: "GPUs below", Viz: Table, Width: 12, Height: 8,
			What: "The GPUs that the endpoint runs on, as configured, where an exporter reads them.", By: ByConfig,
			Worry: "the alerts name one of them.", Alerts: []string{"InferenceGPULost", "InferenceGPUThrottled"},
			Queries: []Query{{Expr: "max by (job, instance, gpu, uuid) (" + whole + " or " + parts + ")"}},
			Columns: []Column{
				{Label: "job", Title: "Job", Width: 75},
				{Label: "instance", Title: "Instance", Links: []Link{gpuFromRow()}},
				{Label: "gpu", Title: "GPU", Width: 75, Links: []Link{gpuFromRow()}},
				{Label: "uuid", Title: "UUID"},
			},
			Sort: []Order{{Title: "Instance"}, {Title: "GPU"}}, NoValue: "no GPU is configured for this endpoint",
		},
	}
}

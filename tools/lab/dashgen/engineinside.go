package main

// engineInside is what engines report of the inside of their steps, and of the KV cache that moves.
func engineInside() []Panel {
	mean := func(name string) string {
		return serverRate("server", "5m", name+"_sum") + " / (" + serverRate("server", "5m", name+"_count") + " > 0)"
	}
	perMinute := func(name string) string { return "60 * " + serverRate("server", "5m", name) }
	return []Panel{
		{
			Title: "Tokens of one step", Viz: TimeSeries, Unit: "suffix: tok", Width: 12, Height: 8,
			What: "Mean tokens of one step of the engine over 5 minutes, of prompts and answers together: how full continuous batching keeps it.", By: ByServer,
			Worry:   "it falls while requests wait: something else than the batch is full.",
			Queries: []Query{{Expr: mean("inference_server_iteration_tokens"), Legend: replica}},
			Min:     ptr(0.0), NoValue: "the engine does not report it",
		},
		{
			Title: "Waiting for something else", Viz: TimeSeries, Unit: "none", Width: 12, Height: 8,
			What: "Requests that wait for something else than a place in the batch: an adapter or a transfer (deferred), the front end, which holds them back, a grammar, the other server of a pair, or KV cache to be sent or received.", By: ByServer,
			Worry: "one kind grows: more replicas do not help.",
			Queries: []Query{
				{Expr: each("inference_server_requests_deferred"), Legend: "deferred " + replica},
				{Expr: each("inference_server_requests_waiting_frontend"), Legend: "front end " + replica},
				{Expr: each("inference_server_requests_waiting_grammar"), Legend: "grammar " + replica},
				{Expr: each("inference_server_requests_waiting_bootstrap"), Legend: "connection " + replica},
				{Expr: each("inference_server_requests_waiting_kv_send"), Legend: "send " + replica},
				{Expr: each("inference_server_requests_waiting_kv_space"), Legend: "space " + replica},
				{Expr: each("inference_server_requests_waiting_kv_transfer"), Legend: "receive " + replica},
			},
			Min: ptr(0.0), NoValue: "the engine does not report it",
		},
		{
			Title: "KV cache moved", Viz: TimeSeries, Unit: "binBps", Width: 12, Height: 8,
			What: "KV cache copied to the memory of the host and back, and between servers for prefill and decode.", By: ByServer,
			Worry: "loads grow past what the prefix cache saves, or transfers stop while requests come.", Alerts: []string{"InferenceKVTransfersFailing"},
			Queries: []Query{
				{Expr: serverRate("server", "5m", "inference_server_kv_offload_stored_bytes_total"), Legend: "store " + replica},
				{Expr: serverRate("server", "5m", "inference_server_kv_offload_loaded_bytes_total"), Legend: "load " + replica},
				{Expr: serverRate("server", "5m", "inference_server_kv_transfer_bytes_total"), Legend: "transfer " + replica},
			},
			Min: ptr(0.0), NoValue: "no KV cache leaves the GPUs",
		},
		{
			Title: "Failures of transfers and requests", Viz: TimeSeries, Unit: "cpm", Width: 12, Height: 8,
			What: "Transfers of KV cache that failed or timed out, copies to the host or beyond that failed or found no room, requests whose cache expired before it was fetched, requests refused at the queue, and requests whose computation gave NaN, a minute.", By: ByServer,
			Worry: "there are any for long; no room on the host alone is a small cache.", Alerts: []string{"InferenceKVTransfersFailing", "InferenceRequestsCorrupted"},
			Queries: []Query{
				{Expr: perMinute("inference_server_kv_transfer_failures_total"), Legend: "failed transfer " + replica},
				{Expr: perMinute("inference_server_kv_transfer_expired_requests_total"), Legend: "expired " + replica},
				{Expr: perMinute("inference_server_kv_transfer_timeouts_total"), Legend: "timeout " + replica},
				{Expr: perMinute("inference_server_kv_offload_failures_total"), Legend: "failed offload " + replica},
				{Expr: perMinute("inference_server_kv_offload_allocation_failures_total"), Legend: "no room on the host " + replica},
				{Expr: perMinute("inference_server_admission_rejections_total"), Legend: "refused " + replica},
				{Expr: perMinute("inference_server_corrupted_requests_total"), Legend: "NaN " + replica},
			},
			Min: ptr(0.0), NoValue: "the engine counts none of them",
		},
		{
			Title: "Time with work", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Share of the time in which the scheduler of the engine had a request to work on, over 5 minutes. One request alone keeps it at work.", By: ByServer,
			Worry:   "it is far below 1 on all replicas: there are more of them than the load needs; or on one: it gets no requests.",
			Queries: []Query{{Expr: "1 - " + serverRate("server", "5m", "inference_server_scheduler_idle_seconds_total") + " / (" + serverRate("server", "5m", "inference_server_scheduler_seconds_total") + " > 0)", Legend: replica}},
			Min:     ptr(0.0), NoValue: "the engine does not report it",
		},
		{
			Title: "Lost to imbalance of ranks", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Share of the tokens that ranks of data parallelism could have computed while they took steps together, had all as much to do as the busiest.", By: ByServer,
			Worry: "it stays high: a part of the GPUs waits for the others.", Alerts: []string{"InferenceRankBehind"},
			Queries: []Query{{Expr: serverRate("server", "15m", "inference_server_rank_imbalance_tokens_total") + " / (" + serverRate("server", "15m", "inference_server_rank_imbalance_tokens_total") + " + " + serverRate("server", "15m", "inference_server_rank_tokens_total") + " > 0)", Legend: replica}},
			Min:     ptr(0.0), NoValue: "no such ranks, or the engine does not report it",
		},
	}
}

// engineMemory is what engines report of their memory and its bandwidth, and of caches beyond it.
func engineMemory() []Panel {
	return []Panel{
		{
			Title: "Hits of caches beyond the GPU", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Share of the prompt tokens looked for in the memory of the host, on disk or on another server that were there, over 30 minutes.", By: ByServer,
			Worry:   "it falls while the load is the same: prompts are computed again.",
			Queries: []Query{{Expr: serverRate("server", "30m", "inference_server_external_prefix_cache_hits_total") + " / (" + serverRate("server", "30m", "inference_server_external_prefix_cache_queries_total") + " > 0)", Legend: replica}},
			Min:     ptr(0.0), NoValue: "no such cache",
		},
		{
			Title: "Cached tokens by where they came from", Viz: TimeSeries, Unit: "suffix: tok/s", Width: 12, Height: 8, Stacked: true,
			What: "Prompt tokens a second that were not computed: from the memory of the GPU, that of the host, and from beyond it.", By: ByServer,
			Worry: "the GPU's part moves to the others: its cache is too small, and TTFT has the time of the copies.",
			Queries: []Query{
				{Expr: serverRate("server", "5m", "inference_server_device_cached_tokens_total"), Legend: "GPU " + replica},
				{Expr: serverRate("server", "5m", "inference_server_host_cached_tokens_total"), Legend: "host " + replica},
				{Expr: serverRate("server", "5m", "inference_server_storage_cached_tokens_total"), Legend: "storage " + replica},
			},
			Min: ptr(0.0), NoValue: "the engine does not report it",
		},
		{
			Title: "Speed of copies to the host and back", Viz: TimeSeries, Unit: "binBps", Width: 12, Height: 8,
			What: "Bytes of KV cache copied over the time that the copies took, over 15 minutes.", By: ByServer,
			Worry: "it is far below the bus of the card: the link is narrower than it should be, or shared.",
			Queries: []Query{
				{Expr: serverRate("server", "15m", "inference_server_kv_offload_stored_bytes_total") + " / (" + serverRate("server", "15m", "inference_server_kv_offload_store_seconds_total") + " > 0)", Legend: "store " + replica},
				{Expr: serverRate("server", "15m", "inference_server_kv_offload_loaded_bytes_total") + " / (" + serverRate("server", "15m", "inference_server_kv_offload_load_seconds_total") + " > 0)", Legend: "load " + replica},
			},
			Min: ptr(0.0), NoValue: "no KV cache leaves the GPUs",
		},
		{
			Title: "Pools in use", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Use of each pool of models whose layers differ, and of the memory of the host for KV cache.", By: ByServer,
			Worry: "one is full while the others have room: the split of the memory does not fit the load.", Alerts: []string{"InferenceKVCacheSaturated"},
			Queries: []Query{
				{Expr: each("inference_server_kv_cache_full_attention_usage_ratio"), Legend: "full attention " + replica},
				{Expr: each("inference_server_kv_cache_sliding_window_usage_ratio"), Legend: "sliding window " + replica},
				{Expr: each("inference_server_mamba_cache_usage_ratio"), Legend: "Mamba " + replica},
				{Expr: each("inference_server_kv_offload_usage_ratio"), Legend: "host " + replica},
			},
			Min: ptr(0.0), NoValue: "one pool, and no offload",
		},
		{
			Title: "Memory of one GPU", Viz: TimeSeries, Unit: "bytes", Width: 12, Height: 8,
			What: "Memory of one GPU that the weights, the KV cache and the CUDA graphs take, as the server measured when it started.", By: ByServer,
			Worry: "replicas differ: one was started with other settings.",
			Queries: []Query{
				{Expr: each("inference_server_model_weights_bytes"), Legend: "weights " + replica},
				{Expr: each("inference_server_kv_cache_bytes"), Legend: "KV cache " + replica},
				{Expr: each("inference_server_cuda_graphs_bytes"), Legend: "graphs " + replica},
			},
			Min: ptr(0.0), NoValue: "the engine does not report it",
		},
		{
			Title: "Part of the loaded model on GPUs", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Memory of the loaded model on GPUs over all that it takes, of servers that load models when they are asked for.", By: ByServer,
			Worry: "it is below 1: layers run on the CPU, and every token waits for them.", Alerts: []string{"InferenceDecodeSpeedCollapse"},
			Queries: []Query{{Expr: each("inference_server_loaded_models_gpu_bytes") + " / (" + each("inference_server_loaded_models_bytes") + " > 0)", Legend: replica}},
			Min:     ptr(0.0), Max: ptr(1.0), NoValue: "no model is loaded, or the engine does not report it",
		},
		{
			Title: "Memory bandwidth in use", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 8,
			What: "Bytes that one GPU reads and writes, as the engine estimates, over the bandwidth of its memory, as configured. No driver is asked.", By: ByServer,
			Worry:   "it is near what the card achieves, about 85 %: decoding cannot be faster.",
			Queries: []Query{{Expr: "max by (" + perReplica + ") (" + ofRecorded.of("server:inference_server_estimated_memory_bandwidth_use:ratio_rate5m") + ")", Legend: replica}},
			Min:     ptr(0.0), NoValue: "no estimates, or the card is not known",
		},
	}
}

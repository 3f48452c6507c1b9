package main

func gpuUse() []Panel {
	return []Panel{
		{
			Title: "Memory", Viz: TimeSeries, Unit: "bytes", Width: 8, Height: 8, Stacked: true,
			What: "Memory of the GPUs that programs hold, that the driver keeps and that is free. An inference server takes most of it at start.", By: ByDriver,
			Worry: "used grows slowly: something leaks, or another program came.", Alerts: []string{"InferenceGPUMemoryNearlyFull"},
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_memory_used_bytes"), Legend: "used " + card},
				{Expr: gpuGauge("inference_gpu_memory_reserved_bytes"), Legend: "reserved " + card},
				{Expr: gpuGauge("inference_gpu_memory_free_bytes"), Legend: "free " + card},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
		{
			Title: "Multiprocessors, tensor cores, memory bandwidth", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of the multiprocessors that had work, of the time in which tensor cores worked, and of the memory's bandwidth in use. Tensor cores are high in prefill, bandwidth in decode.", By: ByDriver,
			Worry: "none is high while requests wait: the GPU is not what bounds the server.",
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_sm_active_ratio"), Legend: "SM " + card},
				{Expr: gpuGauge("inference_gpu_tensor_active_ratio"), Legend: "tensor " + card},
				{Expr: gpuGauge("inference_gpu_dram_bandwidth_utilization_ratio"), Legend: "bandwidth " + card},
			},
			Min: ptr(0.0), Max: ptr(1.0), NoValue: "the GPUs do not tell (Hopper and later do)",
		},
		{
			Title: "Share of time in use", Viz: TimeSeries, Unit: "percentunit", Width: 8, Height: 8,
			What: "Share of time in which any kernel ran, be it on one unit only, and in which memory was read or written. Full does not mean saturated.", By: ByDriver,
			Worry: "it is 0 on a card that should serve.",
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_utilization_ratio"), Legend: "kernels " + card},
				{Expr: gpuGauge("inference_gpu_memory_utilization_ratio"), Legend: "memory " + card},
			},
			Min: ptr(0.0), Max: ptr(1.0), NoValue: noGPU,
		},
	}
}

// gpuWork joins the GPUs to what they serve.
func gpuWork() []Panel {
	return []Panel{
		{
			Title: "Energy for 1000 tokens", Viz: TimeSeries, Unit: "joule", Width: 12, Height: 8,
			What: "Energy that the GPUs of an endpoint took, by the tokens that its servers generated, over 15 minutes. Only for endpoints whose GPUs are configured by uuid; a GPU that several share counts for each.", By: ByDriver,
			Worry: "it grows at the same load: clocks or batches changed.",
			Queries: []Query{{
				Expr: "1000 * sum by (endpoint, model) (max by (uuid) (rate(" + ofGPU.of("inference_gpu_energy_joules_total") + "[15m])) * on (uuid) group_right () max by (endpoint, model, uuid) (inference_endpoint_gpu_info))" +
					" / on (endpoint, model) (sum by (endpoint, model) (max by (endpoint, model, server) (rate(inference_server_generation_tokens_total[15m]))) > 0)",
				Legend: "{{endpoint}} {{model}}",
			}},
			Min: ptr(0.0), NoValue: "no endpoint has its GPUs configured", Links: []Link{fromSeries(uidEndpoint, "Endpoint")},
		},
		{
			Title: "Endpoints on these GPUs", Viz: Table, Width: 12, Height: 8,
			What: "Endpoints that run on the chosen GPUs, as configured, and whether their latest probe succeeded.", By: ByConfig,
			Worry: "the endpoint on a sick card is the slow one.", Alerts: []string{"InferenceGPUXID"},
			Queries: []Query{
				{Expr: "max by (endpoint, model, uuid) (inference_endpoint_gpu_info) * on (uuid) group_left (instance, gpu) topk by (uuid) (1, max by (uuid, instance, gpu) (" + ofGPU.of("inference_gpu_info") + "))"},
				{Expr: "min by (endpoint, model) (inference_probe_success{concurrency=\"\"}) and on (endpoint, model) (max by (endpoint, model, uuid) (inference_endpoint_gpu_info) and on (uuid) " + ofGPU.of("inference_gpu_info") + ")"},
			},
			Columns: []Column{
				{Label: "endpoint", Title: "Endpoint", Links: []Link{fromRow(uidEndpoint, "Endpoint"), fromRow(uidEngine, "Servers")}},
				{Label: "model", Title: "Model"},
				{Label: "instance", Title: "Instance"},
				{Label: "gpu", Title: "GPU", Width: 50},
				{Query: 1, Title: "Probes", States: upStates, Width: 90},
			},
			NoValue: "no endpoint has its GPUs configured",
		},
	}
}

func gpuLinks() []Panel {
	return []Panel{
		{
			Title: "PCIe", Viz: TimeSeries, Unit: "binBps", Width: 8, Height: 8,
			What: "Bytes that each GPU sent and received over PCIe.", By: ByDriver,
			Worry: "it is high in decode: weights or the cache are swapped to the host.",
			Queries: []Query{
				{Expr: gpuRate("inference_gpu_pcie_transmit_bytes_total"), Legend: "sent " + card},
				{Expr: gpuRate("inference_gpu_pcie_receive_bytes_total"), Legend: "received " + card},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
		{
			Title: "NVLink", Viz: TimeSeries, Unit: "binBps", Width: 8, Height: 8,
			What: "Payload that each GPU sent and received over its NVLinks.", By: ByDriver,
			Worry: "one card of a tensor-parallel group has less than the others.",
			Queries: []Query{
				{Expr: gpuRate("inference_gpu_nvlink_transmit_bytes_total"), Legend: "sent " + card},
				{Expr: gpuRate("inference_gpu_nvlink_receive_bytes_total"), Legend: "received " + card},
			},
			Min: ptr(0.0), NoValue: "no NVLink",
		},
		{
			Title: "Errors of the links", Viz: TimeSeries, Unit: "cpm", Width: 8, Height: 8,
			What: "Packets a minute that PCIe sent again, and errors a minute on the NVLinks, by kind.", By: ByDriver,
			Worry: "either rises steadily: a bad slot, riser, bridge or contact.",
			Queries: []Query{
				{Expr: "60 * " + gpuRate("inference_gpu_pcie_replays_total"), Legend: "PCIe " + card},
				{Expr: "60 * sum by (instance, gpu, kind) (rate(" + ofGPU.of("inference_gpu_nvlink_errors_total") + "[5m]))", Legend: "NVLink {{kind}} " + card},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
		{
			Title: "Width and generation of PCIe", Viz: Table, Width: 12, Height: 7,
			What: "Lanes and generation of each link now, and the most that are possible. The generation falls when there is nothing to do.", By: ByDriver,
			Worry: "fewer lanes than possible.",
			Queries: []Query{
				{Expr: gpuGauge("inference_gpu_pcie_link_width")},
				{Expr: gpuGauge("inference_gpu_pcie_link_width_max")},
				{Expr: gpuGauge("inference_gpu_pcie_link_generation")},
				{Expr: gpuGauge("inference_gpu_pcie_link_generation_max")},
			},
			Columns: []Column{
				{Label: "instance", Title: "Instance"},
				{Label: "gpu", Title: "GPU", Width: 50},
				{Query: 0, Title: "Lanes"},
				{Query: 1, Title: "At most"},
				{Query: 2, Title: "Generation"},
				{Query: 3, Title: "At most "},
			},
			NoValue: noGPU,
		},
		{
			Title: "NVLink fabric and links that are up", Viz: TimeSeries, Unit: "none", Width: 12, Height: 7,
			What: "NVLinks of each GPU that are active; the state of the fabric: 1 not started, 2 in progress, 3 completed; and, once completed, whether it is healthy: 1, else 0.", By: ByDriver,
			Worry: "a link is gone, the fabric is not at 3, or it is not healthy.", Alerts: []string{"InferenceGPUFabricUnhealthy"},
			Queries: []Query{
				{Expr: "sum by (instance, gpu) (max by (instance, gpu, link) (" + ofGPU.of("inference_gpu_nvlink_up") + "))", Legend: "links " + card},
				{Expr: gpuGauge("inference_gpu_fabric_state"), Legend: "fabric " + card},
				{Expr: gpuGauge("inference_gpu_fabric_healthy"), Legend: "fabric healthy " + card},
			},
			Min: ptr(0.0), NoValue: "no NVLink",
		},
	}
}

func gpuParts() []Panel {
	return []Panel{
		{
			Title: "Memory of MIG devices", Viz: TimeSeries, Unit: "bytes", Width: 8, Height: 8,
			What: "Memory that programs hold on each part of a GPU that is split by MIG.", By: ByDriver,
			Worry: "used is at the total, the dashed line.", Alerts: []string{"InferenceGPUMemoryNearlyFull"},
			Queries: []Query{
				{Expr: "max by (instance, gpu, mig_uuid, mig_profile) (" + ofGPU.of("inference_gpu_mig_memory_used_bytes") + ")", Legend: card + " {{mig_profile}} {{mig_uuid}}"},
				{Expr: "max by (mig_profile) (" + ofGPU.of("inference_gpu_mig_memory_total_bytes") + ")", Legend: "total {{mig_profile}}", Limit: true},
			},
			Min: ptr(0.0), NoValue: "no GPU is split",
		},
		{
			Title: "Programs by memory", Viz: TimeSeries, Unit: "bytes", Width: 8, Height: 8, Stacked: true,
			What: "Memory that each program holds. Only when programs are asked for.", By: ByDriver,
			Worry: "a stranger holds memory on the card.", Alerts: []string{"InferenceGPUMemoryNearlyFull"},
			Queries: []Query{{Expr: "max by (instance, gpu, pid, process) (" + ofGPU.of("inference_gpu_process_memory_used_bytes") + ")", Legend: card + " {{process}} {{pid}}"}},
			Min:     ptr(0.0), NoValue: "programs are not asked for",
		},
		{
			Title: "Pods", Viz: Table, Width: 8, Height: 8,
			What: "Which pod was given which GPU, as the kubelet tells.", By: ByDriver,
			Worry:   "the sick card belongs to the pod of the slow server.",
			Queries: []Query{{Expr: "max by (instance, gpu, namespace, pod, container) (" + ofGPU.of("inference_gpu_pod_info") + ")"}},
			Columns: []Column{
				{Label: "instance", Title: "Instance"},
				{Label: "gpu", Title: "GPU", Width: 50},
				{Label: "namespace", Title: "Namespace"},
				{Label: "pod", Title: "Pod"},
				{Label: "container", Title: "Container"},
			},
			NoValue: "the kubelet is not asked",
		},
		{
			Title: "Fans", Viz: TimeSeries, Unit: "percentunit", Width: 12, Height: 7,
			What: "Speed that each fan is told to have.", By: ByDriver,
			Worry: "it is at its highest and the temperature rises.", Alerts: []string{"InferenceGPUThrottled"},
			Queries: []Query{{Expr: "max by (instance, gpu, fan) (" + ofGPU.of("inference_gpu_fan_speed_ratio") + ")", Legend: card + " {{fan}}"}},
			Min:     ptr(0.0), NoValue: "no fans",
		},
		{
			Title: "Polls of the driver", Viz: TimeSeries, Unit: "s", Width: 12, Height: 7,
			What: "How old the readings of each machine are, and how long the latest poll took.", By: ByExporter,
			Worry: "polls get slower: a GPU is often about to fail then. The age grows: the driver is stuck.", Alerts: []string{"InferenceGPUDriverStuck"},
			Queries: []Query{
				{Expr: "time() - max by (instance) (" + ofMachine.of("inference_gpu_last_poll_timestamp_seconds") + ")", Legend: "age {{instance}}"},
				{Expr: "max by (instance) (" + ofMachine.of("inference_gpu_poll_duration_seconds") + ")", Legend: "duration {{instance}}"},
			},
			Min: ptr(0.0), NoValue: noGPU,
		},
	}
}

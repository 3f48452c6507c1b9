package alerts

// The memory of the GPUs on which one replica of an endpoint runs, and its parts.
const (
	memoryUsed    = "endpoint:inference_gpu_memory_used_bytes:sum"
	memoryWeights = "endpoint:inference_server_model_weights_bytes:sum"
	memoryKVCache = "endpoint:inference_server_kv_cache_bytes:sum"
	memoryParts   = "endpoint:inference_gpu_memory_used_bytes:by_part"
)

// memoryRecorded splits the memory in use on the GPUs of an endpoint into weights, KV
// cache and rest. Servers report the first two of one GPU, or they follow from the
// configuration where a server reports neither: the weights while a server has them on its
// GPUs, the KV cache by its capacity. The rest needs both, and the readings of all GPUs
// that the endpoint names.
func memoryRecorded() []Rule {
	ofAll := func(to, from, configured string) Rule {
		return record(to, `max by ($K) (%s) * on ($K) max by ($K) (inference_endpoint_gpus)
or on ($K)
(
%s
unless on ($K) max by ($K) (inference_server_engines_sleeping) > 0
)`, from, configured)
	}
	return []Rule{
		record(memoryUsed, `sum by ($K) (
  group by ($K, uuid) (inference_endpoint_gpu_info{uuid!=""})
  * on (uuid) group_left ()
  max by (uuid) (inference_gpu_memory_used_bytes)
)
and on ($K)
(
  count by ($K) (group by ($K, uuid) (inference_endpoint_gpu_info{uuid!=""}) and on (uuid) inference_gpu_memory_used_bytes)
  == on ($K)
  max by ($K) (inference_endpoint_gpus)
)`),
		ofAll(memoryWeights, "inference_server_model_weights_bytes", `  max by ($K) (inference_endpoint_total_weights_bytes)
  and on ($K) max by ($K) (inference_server_up) == 1`),
		ofAll(memoryKVCache, "inference_server_kv_cache_bytes", `  max by ($K) (inference_server_kv_cache_capacity_tokens)
  * on ($K) max by ($K) (inference_endpoint_kv_cache_bytes_per_token)`),
		record(memoryParts, `label_replace(%[2]s, "part", "weights", "", "")
or label_replace(%[3]s, "part", "kv_cache", "", "")
or label_replace(%[1]s - on ($K) %[2]s - on ($K) %[3]s >= 0, "part", "rest", "", "")`, memoryUsed, memoryWeights, memoryKVCache),
	}
}

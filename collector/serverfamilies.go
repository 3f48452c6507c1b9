package collector

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
)

// numStates is the number of states of a server.
const numStates = 4

// states lists the closed set of states of a server.
func states() []page.State {
	return []page.State{page.Up, page.Down, page.Unreadable, page.Unmapped}
}

// scrapeReasons lists the closed set of reasons why a page was not read.
func scrapeReasons() []page.Reason {
	return []page.Reason{
		page.ReasonDNS, page.ReasonConnect, page.ReasonTLS, page.ReasonTimeout, page.ReasonStatus,
		page.ReasonTooLarge, page.ReasonFormat, page.ReasonDuplicate, page.ReasonType, page.ReasonBuckets,
		page.ReasonUnmapped,
	}
}

// serverValues is the state behind the samples of one server.
type serverValues struct {
	info   *labelBlock // nil before the first page
	status *page.Status
}

// snapshotOf returns the content of a server's page; nil unless it was read.
func snapshotOf(st *page.Status) *page.Snapshot {
	if st.State != page.Up {
		return nil
	}
	return st.Snapshot
}

// serverFamily is a family of the series of servers.
type serverFamily = familyOf[serverValues]

// serverFamilies returns the families of servers in the order of the
// documentation.
func serverFamilies() []*serverFamily {
	all := readingFamilies()
	all = append(all, loadFamilies()...)
	all = append(all, prefixCacheFamilies()...)
	all = append(all, workFamilies()...)
	all = append(all, transferFamilies()...)
	all = append(all, estimateFamilies()...)
	return append(all, engineHistogramFamilies()...)
}

// readingFamilies are how the readings of the pages went.
func readingFamilies() []*serverFamily {
	reasons := scrapeReasons()
	return []*serverFamily{
		statusGauge("up", "",
			"1 if the latest scrape of the server's own metrics page succeeded, 0 otherwise; see inference_server_scrape_failures_total for the reason. A server whose page fails may still serve requests: see inference_probe_success.",
			func(st *page.Status) gauge {
				g := gauge{present: true}
				if st.State == page.Up {
					g.value = 1
				}
				return g
			}),
		serverInfoFamily(),
		statusGauge("scrape_duration_seconds", "seconds",
			"Duration of the latest scrape of the server's page. It grows when the server process is busy.",
			func(st *page.Status) gauge { return gauge{st.Duration.Seconds(), !st.At.IsZero()} }),
		statusGauge("last_scrape_timestamp_seconds", "seconds",
			"Unix time at which the latest scrape of the server's page started, whether it succeeded or failed. All values of the server are from that time.",
			func(st *page.Status) gauge { return timeGauge(st.At) }),
		newServerFamily(Family{
			Name: "scrape_failures_total", Type: Counter, Labels: []string{"reason"}, Values: labelValues(reasons),
			Help:  "Failed scrapes of the server's page, by reason.",
			Notes: "The host name does not resolve (dns), no connection (connect, tls), no reply in time (timeout), an HTTP error (http_status), or a page that is too large (too_large), not in a metrics format (format), has duplicate series (duplicate), has another metric type than the mapping expects (wrong_type), has histograms of over 100 buckets or of ever new ones (buckets) or belongs to an unknown engine (unmapped).",
		}, func(e encoder, f *family, v serverValues) {
			for _, i := range f.order {
				if n := v.status.Failures[reasons[i]]; n > 0 || !e.compact() {
					e.counter(i, float64(n))
				}
			}
		}),
		newServerFamily(Family{
			Name: "quantity_missing", Type: Gauge, Labels: []string{"quantity"}, Values: labelValues(config.Quantities()),
			Help: "1 for a quantity that every page of this engine should have and this one lacks: the engine probably renamed it, and the mapping must be changed. Absent for all other quantities.",
		}, func(e encoder, f *family, v serverValues) {
			if s := snapshotOf(v.status); s != nil {
				for _, i := range f.order {
					if slices.Contains(s.Missing, config.Quantity(f.Values[i])) {
						e.gauge(i, 1)
					}
				}
			}
		}),
		statusGauge("last_progress_timestamp_seconds", "seconds",
			"Unix time at which the server last generated tokens or had no requests. If it falls behind inference_server_last_scrape_timestamp_seconds while requests are running, the engine hangs. Absent for engines that do not expose progress.",
			func(st *page.Status) gauge { return timeGauge(st.LastProgress) }),
	}
}

// loadFamilies are how much a server has to do, and how much it can.
func loadFamilies() []*serverFamily {
	return []*serverFamily{
		quantityGauge(config.RequestsRunning, "",
			"Requests that the server is processing."),
		quantityGauge(config.RequestsWaiting, "",
			"Requests waiting in the server's queue. A queue that persists means that the server is saturated: TTFT grows before requests fail."),
		quantityGauge(config.RequestsDeferred, "",
			"Requests in the server's queue that wait for something else than capacity: a transfer of KV cache or a place among the LoRA adapters, for example. They are part of inference_server_requests_waiting."),
		quantityGauge(config.WaitingGrammar, "",
			"Requests whose grammar is being compiled, before they enter the queue. They are not part of inference_server_requests_waiting."),
		quantityGauge(config.WaitingBootstrap, "",
			"Requests of a prefill server that wait for the connection to their decode server, before they enter the queue."),
		quantityGauge(config.WaitingKVSend, "",
			"Requests of a prefill server whose KV cache is being sent to their decode server."),
		quantityGauge(config.WaitingKVSpace, "",
			"Requests of a decode server that wait for space for the KV cache of their prompt."),
		quantityGauge(config.WaitingKVTransfer, "",
			"Requests that wait for the KV cache of their prompt to arrive from another server or cache."),
		quantityGauge(config.EnginesSleeping, "",
			"Engine cores that were put to sleep, and answer nothing until they are woken."),
		quantityGauge(config.KVCacheUsage, "ratio",
			"Ratio of the KV cache in use, 0 to 1. Near 1 the server queues or preempts requests. Blocks kept only for reuse are excluded if the engine reports them separately."),
		quantityGauge(config.FullUsage, "ratio",
			"Ratio of the KV cache of the layers with full attention in use, 0 to 1. Present for models whose layers have several pools; the fullest is inference_server_kv_cache_usage_ratio."),
		quantityGauge(config.SlidingUsage, "ratio",
			"Ratio of the KV cache of the layers with sliding-window attention in use, 0 to 1."),
		quantityGauge(config.MambaUsage, "ratio",
			"Ratio of the states of Mamba and other linear-attention layers in use, 0 to 1."),
		quantityGauge(config.KVCacheCapacity, "tokens",
			"Capacity of the KV cache in tokens, for all requests together."),
		quantityGauge(config.KVBlockSize, "tokens",
			"Tokens of a block of the KV cache, in which prefixes are reused."),
		quantityGauge(config.KVBlocks, "",
			"Blocks of the KV cache, in use or not."),
		quantityGauge(config.OffloadUsage, "ratio",
			"Ratio of the host's memory for offloaded KV cache in use, 0 to 1."),
		quantityGauge(config.OffloadUsed, "tokens",
			"Tokens of KV cache in the host's memory."),
		quantityGauge(config.OffloadCapacity, "tokens",
			"Tokens of KV cache that the host's memory has room for."),
		quantityGauge(config.WeightsBytes, "bytes",
			"Memory of one GPU that the weights of the model take, as measured by the server when it loaded them. Of several GPUs the largest."),
		quantityGauge(config.KVCacheBytes, "bytes",
			"Memory of one GPU that the server has set aside for the KV cache, in use or not. Of several GPUs the largest."),
		quantityGauge(config.GraphsBytes, "bytes",
			"Memory of one GPU that captured CUDA graphs take. Of several GPUs the largest."),
		quantityGauge(config.ContextLength, "tokens",
			"Maximum length of prompt and answer together that the server accepts."),
		quantityGauge(config.LoRARunning, "",
			"LoRA adapters with requests that the server is processing."),
		quantityGauge(config.LoRAWaiting, "",
			"LoRA adapters with requests in the server's queue. Where inference_server_lora_adapters_running is at its maximum, they wait for a place among the adapters."),
		quantityGauge(config.LoRAMax, "",
			"LoRA adapters that requests processed at the same time can have at most."),
		quantityGauge(config.AcceptanceRatio, "ratio",
			"Ratio of proposed tokens that the model accepted in the latest batches, 0 to 1, for engines that do not count them: see inference_server_spec_decode_accepted_tokens_total for those that do."),
	}
}

// prefixCacheFamilies are what the reuse of prompts saves.
func prefixCacheFamilies() []*serverFamily {
	return []*serverFamily{
		quantityCounter(config.PrefixCacheAsked, "",
			"Queries of the prefix cache, in the unit given by the label prefix_cache_unit of inference_server_info."),
		quantityCounter(config.PrefixCacheHits, "",
			"Hits of the prefix cache: the part of inference_server_prefix_cache_queries_total that was not computed again."),
		snapshotGauge("prefix_cache_hit_ratio", "ratio",
			"Hits divided by queries of the prefix cache, 0 to 1, over the last 5 minutes, or since the first scrape if that is shorter. Absent while there are no queries.",
			func(s *page.Snapshot) gauge {
				r := s.PrefixCacheRatio
				return gauge{r, s.PrefixCacheUnit != "" && r >= 0 && r <= 1}
			}),
		quantityCounter(config.ExternalAsked, "",
			"Prompt tokens that were looked for in a cache beyond the GPU's: the host's memory, a disk or another server. Absent until there are any."),
		quantityCounter(config.ExternalHits, "",
			"Prompt tokens that a cache beyond the GPU's had. Divided by inference_server_external_prefix_cache_queries_total it is the hit ratio of that cache."),
	}
}

// workFamilies count what a server has done.
func workFamilies() []*serverFamily {
	return []*serverFamily{
		quantityCounter(config.PromptTokens, "tokens",
			"Prompt tokens of all requests, including cached tokens. Some engines count them only when a request ends."),
		quantityCounter(config.GenerationTokens, "tokens",
			"Tokens that the server generated. Some engines count them only when a request ends."),
		newServerFamily(Family{
			Name: "requests_total", Type: Counter, Labels: []string{"finish"}, Values: config.Finishes(),
			Help: "Finished requests by finish reason: a stop token (stop), the token limit (length), aborted by the client (abort), an error (error), success without further detail (success), another reason (other), or a reason that the engine does not report (unknown). A reason appears once the engine exposes it.",
		}, func(e encoder, f *family, v serverValues) {
			if s := snapshotOf(v.status); s != nil {
				for _, i := range f.order {
					emitCounter(e, i, s.Requests, f.Values[i])
				}
			}
		}),
		quantityCounter(config.Rejections, "",
			"Requests that the server refused because its queue was full."),
		quantityCounter(config.Corrupted, "",
			"Requests whose computation gave NaN instead of numbers: their answers are wrong. vLLM checks this only with VLLM_COMPUTE_NANS_IN_LOGITS=1."),
		quantityCounter(config.Preemptions, "",
			"Requests that were evicted from the KV cache for lack of space and must be computed again. A steady rate means that the cache is too small for the load."),
		quantityCounter(config.EvictedTokens, "tokens",
			"Cached tokens that were evicted from the KV cache."),
		quantityCounter(config.Drafts, "",
			"Drafts of one or more tokens proposed by speculative decoding. Accepted tokens divided by drafts, plus 1, are the tokens of a step."),
		quantityCounter(config.DraftTokens, "tokens",
			"Tokens proposed by speculative decoding."),
		quantityCounter(config.AcceptedTokens, "tokens",
			"Proposed tokens that the model accepted. Divided by inference_server_spec_decode_draft_tokens_total it is the acceptance rate."),
	}
}

// transferFamilies are the KV cache that moves: to the host's memory and back, and
// between servers.
func transferFamilies() []*serverFamily {
	return []*serverFamily{
		quantityCounter(config.OffloadStored, "bytes",
			"KV cache copied from the GPU to the host's memory or storage."),
		quantityCounter(config.OffloadLoaded, "bytes",
			"KV cache copied from the host's memory or storage back to the GPU."),
		quantityCounter(config.TransferBytes, "bytes",
			"KV cache transferred between servers, for prefill and decode on different ones."),
		quantityCounter(config.TransferFailures, "",
			"Failed transfers of KV cache between servers, by NIXL for example. The request fails or its prompt is computed again."),
		quantityCounter(config.TransferExpired, "",
			"Requests whose KV cache a prefill server gave up before a decode server had fetched it."),
	}
}

// estimateFamilies are what engines estimate of their use of the hardware.
func estimateFamilies() []*serverFamily {
	return []*serverFamily{
		quantityCounter(config.EstimatedFLOPs, "",
			"Floating-point operations that one GPU has done, as the engine estimates from the model and its batches. Present with --enable-mfu-metrics (vLLM, SGLang). Of several engine cores the largest."),
		quantityCounter(config.EstimatedRead, "",
			"Bytes that one GPU has read from its memory, as the engine estimates. With inference_server_estimated_write_bytes_per_gpu_total it is the use of the memory's bandwidth."),
		quantityCounter(config.EstimatedWritten, "",
			"Bytes that one GPU has written to its memory, as the engine estimates."),
	}
}

// engineHistogramFamilies are the engines' own distributions over all their
// requests.
func engineHistogramFamilies() []*serverFamily {
	return []*serverFamily{
		quantityHistogram(config.TTFT,
			"Time to first token of all requests as measured by the server: from their arrival, including its queue, excluding the network."),
		quantityHistogram(config.TPOT,
			"Time per output token of all requests: one mean per request, after its first token."),
		quantityHistogram(config.InterToken,
			"Time between consecutive tokens of all requests. One observation per token."),
		quantityHistogram(config.QueueTime,
			"Time that requests spent in the server's queue. Observed when the request ends or leaves the queue."),
		quantityHistogram(config.TokenizationTime,
			"Time that the server spent on the tokenization of prompts."),
		quantityHistogram(config.PrefillTime,
			"Time that the server spent on the prefill of requests."),
		quantityHistogram(config.DecodeTime,
			"Time that the server spent on the decoding of requests after their first token."),
		quantityHistogram(config.InferenceTime,
			"Time that requests spent in the model, after the queue. Present for engines that do not report prefill and decode."),
		quantityHistogram(config.RequestDuration,
			"Duration of all requests as measured by the server, including its queue. Observed when the request ends."),
		quantityHistogram(config.KVTransferTime,
			"Time that one transfer of KV cache between servers took."),
		quantityHistogram(config.IterationTokens,
			"Tokens of one step of the engine, of prompts and of answers together: how full its batches are."),
		quantityHistogram(config.BatchSize,
			"Requests of one step of the engine."),
	}
}

// serverInfoFamily describes the servers. It has labels that the others lack.
func serverInfoFamily() *serverFamily {
	f := Family{
		Name: "server_info", Group: GroupServer, Type: Gauge,
		Help: "Always 1. Describes a server whose page is read: the URL of the page, the unit of the prefix cache's counters: tokens, blocks or requests, and, where the page shows it, what part of a request the server does: all of it (unified), the prompt (prefill) or the answer (decode).",
	}
	return &serverFamily{
		newFamily(f, []string{"endpoint", "model", "server", "engine", "url", "prefix_cache_unit", "disaggregation_role"}, nil),
		func(e encoder, _ *family, v serverValues) {
			if snapshotOf(v.status) != nil {
				e.labels(v.info, time.Time{})
				e.gauge(0, 1)
			}
		},
	}
}

// newServerFamily returns a family with the labels of every server family.
// f.Name comes without "server_".
func newServerFamily(f Family, emit func(e encoder, f *family, v serverValues)) *serverFamily {
	f.Name, f.Group = "server_"+f.Name, GroupServer
	return &serverFamily{newFamily(f, []string{"endpoint", "model", "server", "engine"}, nil), emit}
}

// statusGauge returns a family of one gauge for each server, up or not.
func statusGauge(name, unit, help string, get func(st *page.Status) gauge) *serverFamily {
	return newServerFamily(Family{Name: name, Type: Gauge, Unit: unit, Help: help},
		func(e encoder, _ *family, v serverValues) {
			emitGauge(e, 0, get(v.status))
		})
}

// snapshotGauge returns a family of one gauge for each server that is up.
func snapshotGauge(name, unit, help string, get func(s *page.Snapshot) gauge) *serverFamily {
	return statusGauge(name, unit, help, func(st *page.Status) gauge {
		if s := snapshotOf(st); s != nil {
			return get(s)
		}
		return gauge{}
	})
}

// quantityGauge returns the family of a quantity that is a gauge.
func quantityGauge(q config.Quantity, unit, help string) *serverFamily {
	return snapshotGauge(string(q), unit, help, func(s *page.Snapshot) gauge {
		v, ok := s.Values[q]
		return gauge{v, ok && isMeasure(v)}
	})
}

// quantityCounter returns the family of a quantity that is a counter.
func quantityCounter(q config.Quantity, unit, help string) *serverFamily {
	return newServerFamily(Family{Name: string(q) + "_total", Type: Counter, Unit: unit, Help: help},
		func(e encoder, _ *family, v serverValues) {
			if s := snapshotOf(v.status); s != nil {
				emitCounter(e, 0, s.Values, q)
			}
		})
}

// quantityHistogram returns the family of a distribution, with the bounds of
// each server.
func quantityHistogram(q config.Quantity, help string) *serverFamily {
	name, unit := string(q)+"_seconds", "seconds"
	if !config.IsDuration(q) {
		name, unit = string(q), ""
	}
	return newServerFamily(Family{Name: name, Type: Histogram, Unit: unit, Help: help + " Buckets are those of the engine; only +Inf if it reports only a sum and a count."},
		func(e encoder, _ *family, v serverValues) {
			s := snapshotOf(v.status)
			if s == nil {
				return
			}
			if h := s.Histograms[q]; h != nil && len(h.Counts) == len(h.Bounds) && isMeasure(h.Sum) {
				e.engineHistogram(h)
			}
		})
}

// emitCounter encodes the value of a key, if there is one that can be counted.
func emitCounter[K comparable](e encoder, own int, values map[K]float64, key K) {
	if v, ok := values[key]; ok && isMeasure(v) {
		e.counter(own, math.Round(v))
	}
}

// isMeasure reports whether v is finite and not negative.
func isMeasure(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }

// timeGauge returns the Unix time of t; absent for the zero time.
func timeGauge(t time.Time) gauge {
	if t.IsZero() {
		return gauge{}
	}
	return gauge{unixSeconds(t), true}
}

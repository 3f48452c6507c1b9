package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
)

// MetricsPages are the metrics pages of software that is read beside the servers, such as
// a gateway or an exporter of GPUs.
type MetricsPages struct {
	// URLs are the pages, one for each replica or host. A URL without a path gets that
	// of the software. Required unless there is `dns`.
	URLs []PageURL `yaml:"urls,omitempty"`
	// DNS are pages at all addresses that their host resolves to, each a replica or a
	// host. The name is resolved again before each reading.
	DNS []PageURL `yaml:"dns,omitempty"`
	// Software is the name of the mapping to read the pages with. Default: recognized by
	// the series of the page.
	Software string `yaml:"software,omitempty" text:"128"`
	// Interval is the time from one reading to the next.
	Interval model.Duration `yaml:"interval" default:"15s"`
	// Timeout limits one reading. It may not exceed the interval; the default
	// is cut to it.
	Timeout model.Duration `yaml:"timeout" default:"10s"`
	// HTTP says how to connect to the pages and to authenticate, with the keys
	// of the endpoint's `http`.
	HTTP HTTPClient `yaml:"http"`
}

// Format writes the pages as printYAML does.
func (m MetricsPages) Format(f fmt.State, _ rune) { printYAML(f, m) }

// Endpoint returns an endpoint of that name whose servers have these pages, for the
// reader of servers' pages.
func (m *MetricsPages) Endpoint(name string) *Endpoint {
	return &Endpoint{
		Name: name, URL: URL(slices.Concat(m.URLs, m.DNS)[0]), HTTP: m.HTTP,
		Servers: Servers{URLs: m.URLs, DNS: m.DNS, Engine: m.Software, Interval: m.Interval, Timeout: m.Timeout, HTTP: &m.HTTP},
	}
}

func (m *MetricsPages) complete(r *report, p path) {
	r.limit(p.key("timeout"), &m.Timeout, p.key("interval"), m.Interval)
}

func (m *MetricsPages) check(r *report, p path) {
	if len(m.URLs)+len(m.DNS) == 0 && !r.failedUnder(p) {
		r.errorf(p.key("urls"), "missing; want the URL of a metrics page, or dns")
	}
	first := map[string]path{}
	checkPages(r, p.key("urls"), m.URLs, first)
	checkPages(r, p.key("dns"), m.DNS, first)
}

// GPUs says from where GPUs are read besides the drivers of this machine.
type GPUs struct {
	// Pages are metrics pages of other exporters that show GPUs or other accelerators,
	// by name; see below. They are read while `--collector.gpu` is on.
	Pages map[string]*MetricsPages `yaml:"pages,omitempty" text:"128"`
}

// reservedGPUSources are the names of what reads the GPUs of this machine.
func reservedGPUSources() []string { return []string{"nvml", "amdgpu"} }

func (g *GPUs) check(r *report, p path) {
	for _, name := range reservedGPUSources() {
		if g.Pages[name] != nil {
			r.errorf(p.key("pages").key(name), "the name %s is that of the driver of this machine", quote(name))
		}
	}
}

func checkGateway(r *report, p path, name string, gateways map[string]*MetricsPages) {
	if name != "" && gateways[name] == nil {
		r.errorf(p, "unknown gateway %s%s", quote(name), Hint(name, "known under gateways", slices.Sorted(maps.Keys(gateways))))
	}
}

// Quantity is something that servers report about themselves, in one vocabulary
// for all engines: the name of a metric without its prefix and suffix.
type Quantity string

// The quantities that are one number.
const (
	RequestsRunning   Quantity = "requests_running"             // requests in the batch
	RequestsWaiting   Quantity = "requests_waiting"             // requests in the queue
	RequestsDeferred  Quantity = "requests_deferred"            // waiting requests that more capacity would not start
	WaitingGrammar    Quantity = "requests_waiting_grammar"     // requests whose grammar is being compiled, not in the queue yet
	WaitingBootstrap  Quantity = "requests_waiting_bootstrap"   // requests of a prefill server without a connection to their decode server
	WaitingKVSend     Quantity = "requests_waiting_kv_send"     // requests of a prefill server whose KV cache is being sent
	WaitingKVSpace    Quantity = "requests_waiting_kv_space"    // requests of a decode server without space for their KV cache
	WaitingKVTransfer Quantity = "requests_waiting_kv_transfer" // requests whose KV cache is to come or coming from another server
	EnginesSleeping   Quantity = "engines_sleeping"             // engine cores that were put to sleep
	KVCacheUsage      Quantity = "kv_cache_usage_ratio"         // 0 to 1, without what is only kept for reuse where the engine reports that
	FullUsage         Quantity = "kv_cache_full_attention_usage_ratio"
	SlidingUsage      Quantity = "kv_cache_sliding_window_usage_ratio"
	MambaUsage        Quantity = "mamba_cache_usage_ratio"  // states of layers without attention
	KVCacheCapacity   Quantity = "kv_cache_capacity_tokens" // tokens
	KVBlockSize       Quantity = "kv_cache_block_tokens"    // tokens of a block
	KVBlocks          Quantity = "kv_cache_blocks"          // all blocks, used or not
	OffloadUsage      Quantity = "kv_offload_usage_ratio"   // of the memory of the host for KV cache, 0 to 1
	OffloadUsed       Quantity = "kv_offload_used_tokens"
	OffloadCapacity   Quantity = "kv_offload_capacity_tokens"
	WeightsBytes      Quantity = "model_weights_bytes"           // of one GPU
	KVCacheBytes      Quantity = "kv_cache_bytes"                // of one GPU
	GraphsBytes       Quantity = "cuda_graphs_bytes"             // of one GPU
	ContextLength     Quantity = "context_length_tokens"         // tokens of prompt and answer together, at most
	LoRARunning       Quantity = "lora_adapters_running"         // adapters with requests in the batch
	LoRAWaiting       Quantity = "lora_adapters_waiting"         // adapters with requests in the queue
	LoRAMax           Quantity = "lora_adapters_max"             // adapters that a batch can have
	AcceptanceRatio   Quantity = "spec_decode_acceptance_ratio"  // of the latest batches, for engines that do not count
	PromptTokens      Quantity = "prompt_tokens"                 // counter, cached ones included
	GenerationTokens  Quantity = "generation_tokens"             // counter
	Rejections        Quantity = "admission_rejections"          // counter, requests
	Corrupted         Quantity = "corrupted_requests"            // counter, requests
	Preemptions       Quantity = "preemptions"                   // counter, requests
	EvictedTokens     Quantity = "kv_cache_evicted_tokens"       // counter
	Drafts            Quantity = "spec_decode_drafts"            // counter, drafts of several tokens
	DraftTokens       Quantity = "spec_decode_draft_tokens"      // counter
	AcceptedTokens    Quantity = "spec_decode_accepted_tokens"   // counter
	ExternalAsked     Quantity = "external_prefix_cache_queries" // counter, tokens
	ExternalHits      Quantity = "external_prefix_cache_hits"    // counter, tokens
	OffloadStored     Quantity = "kv_offload_stored_bytes"       // counter
	OffloadLoaded     Quantity = "kv_offload_loaded_bytes"       // counter
	TransferBytes     Quantity = "kv_transfer_bytes"             // counter
	TransferFailures  Quantity = "kv_transfer_failures"          // counter
	TransferExpired   Quantity = "kv_transfer_expired_requests"  // counter, requests
	EstimatedFLOPs    Quantity = "estimated_flops_per_gpu"       // counter
	EstimatedRead     Quantity = "estimated_read_bytes_per_gpu"  // counter
	EstimatedWritten  Quantity = "estimated_write_bytes_per_gpu" // counter
	PrefixCacheHits   Quantity = "prefix_cache_hits"             // counter, see MappingPrefixCache
	PrefixCacheAsked  Quantity = "prefix_cache_queries"          // counter, see MappingPrefixCache
	RequestsFinished  Quantity = "requests"                      // counter, see MappingRequests
)

// The quantities that are distributions: histograms, in seconds but for the last two.
const (
	TTFT             Quantity = "ttft"        // from the arrival of a request to its first token
	TPOT             Quantity = "tpot"        // mean over a request after its first token
	InterToken       Quantity = "inter_token" // between two tokens
	QueueTime        Quantity = "queue"
	TokenizationTime Quantity = "tokenization"
	PrefillTime      Quantity = "prefill"
	DecodeTime       Quantity = "decode"
	InferenceTime    Quantity = "inference" // after the queue, for engines that do not divide it
	RequestDuration  Quantity = "request_duration"
	KVTransferTime   Quantity = "kv_transfer"      // of one transfer of KV cache between servers
	IterationTokens  Quantity = "iteration_tokens" // tokens of one step of the engine
	BatchSize        Quantity = "batch_size"       // requests of one step of the engine
)

// Numbers lists the quantities that `values` may have: gauges, then counters.
func Numbers() []Quantity { return append(gauges(), counters()...) }

func gauges() []Quantity {
	return []Quantity{
		RequestsRunning, RequestsWaiting, RequestsDeferred, WaitingGrammar, WaitingBootstrap, WaitingKVSend, WaitingKVSpace, WaitingKVTransfer,
		EnginesSleeping, KVCacheUsage, FullUsage, SlidingUsage, MambaUsage, KVCacheCapacity, KVBlockSize, KVBlocks,
		OffloadUsage, OffloadUsed, OffloadCapacity, WeightsBytes, KVCacheBytes, GraphsBytes, ContextLength,
		LoRARunning, LoRAWaiting, LoRAMax, AcceptanceRatio,
	}
}

func counters() []Quantity {
	return []Quantity{
		PromptTokens, GenerationTokens, Rejections, Corrupted, Preemptions, EvictedTokens, Drafts, DraftTokens, AcceptedTokens,
		ExternalAsked, ExternalHits, OffloadStored, OffloadLoaded, TransferBytes, TransferFailures, TransferExpired,
		EstimatedFLOPs, EstimatedRead, EstimatedWritten,
	}
}

// Distributions lists the quantities that `histograms` may have.
func Distributions() []Quantity {
	return []Quantity{
		TTFT, TPOT, InterToken, QueueTime, TokenizationTime, PrefillTime, DecodeTime, InferenceTime, RequestDuration, KVTransferTime,
		IterationTokens, BatchSize,
	}
}

// IsDuration reports whether a distribution is in seconds; one that is not has its unit
// in its name.
func IsDuration(q Quantity) bool { return q != IterationTokens && q != BatchSize }

// Quantities lists all quantities: Numbers, those that have a section of their
// own, and Distributions.
func Quantities() []Quantity {
	all := append(Numbers(), PrefixCacheAsked, PrefixCacheHits, RequestsFinished)
	return append(all, Distributions()...)
}

// IsCounter reports whether a quantity grows until its server restarts. A
// distribution is none, though its parts do the same.
func IsCounter(q Quantity) bool {
	return q == PrefixCacheHits || q == PrefixCacheAsked || q == RequestsFinished || slices.Contains(counters(), q) || isGatewayCounter(q)
}

// MetricName returns the name of the metric of a quantity that is one number, without its
// prefix.
func (q Quantity) MetricName() string {
	if IsCounter(q) {
		return string(q) + "_total"
	}
	return string(q)
}

// IsRatio reports whether a quantity is a share, from 0 to 1.
func IsRatio(q Quantity) bool { return strings.HasSuffix(string(q), "_ratio") && q != Saturation }

// isLargest reports whether of several numbers of a quantity the largest counts and
// not the sum.
func isLargest(q Quantity) bool {
	switch q {
	case ContextLength, KVBlockSize, LoRAMax, WeightsBytes, KVCacheBytes, GraphsBytes, EstimatedFLOPs, EstimatedRead, EstimatedWritten:
		return true
	}
	return IsRatio(q) || q == Saturation
}

// AddsUp reports whether of several servers of an endpoint, or replicas of a gateway, the
// sum of a quantity counts, and not the largest number: replicas see the same backends.
func AddsUp(q Quantity) bool { return !isLargest(q) && q != Backends && q != BackendsReady }

// Roles lists what part of a request a server can do.
func Roles() []string { return []string{"unified", "prefill", "decode"} }

// Finishes lists how a request can end, as engines report it. Success is for
// engines that do not distinguish stop from length.
func Finishes() []string {
	return []string{"stop", "length", "abort", "error", "success", "other", "unknown"}
}

// PrefixCacheUnits lists what the hits of a prefix cache are counted in.
func PrefixCacheUnits() []string { return []string{"tokens", "blocks", "requests"} }

// The quantities of gateways alone. The others have the names of those of engines.
const (
	Saturation       Quantity = "saturation_ratio"  // of the backends as the gateway judges it; 1 and above is saturated
	Backends         Quantity = "backends"          // that the gateway knows
	BackendsReady    Quantity = "backends_ready"    // that it sends requests to
	RoutingDecisions Quantity = "routing_decisions" // counter
	Cooldowns        Quantity = "cooldowns"         // counter: times that a backend was left out after failures
	RoutingTime      Quantity = "routing"           // distribution: of the choice of a backend
)

// GatewayNumbers lists the quantities that `values` of a gateway may have: gauges,
// then counters.
func GatewayNumbers() []Quantity {
	return []Quantity{RequestsRunning, RequestsWaiting, Saturation, Backends, BackendsReady, Rejections, RoutingDecisions, Cooldowns}
}

// GatewayDistributions lists the quantities that `histograms` of a gateway may have.
func GatewayDistributions() []Quantity {
	return []Quantity{QueueTime, TokenizationTime, RoutingTime, TTFT, RequestDuration}
}

// GatewayQuantities lists all quantities of gateways.
func GatewayQuantities() []Quantity {
	all := append(GatewayNumbers(), PrefixCacheAsked, PrefixCacheHits, RequestsFinished)
	return append(all, GatewayDistributions()...)
}

func isGatewayCounter(q Quantity) bool { return q == RoutingDecisions || q == Cooldowns }

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

// GatewayMapping says how to read the metrics page of one gateway software. One with
// the name of a built-in mapping changes only what it writes: a list or a plain value
// replaces the built-in one, and in a mapping only the keys that are written change.
type GatewayMapping struct {
	// Sentinels are series, any of which identifies a page as this software's.
	// Default: those of the built-in mapping; a new one needs at least one.
	Sentinels []string `yaml:"sentinels,omitempty" form:"series" items:"some"`
	// Fallback says whether the page may hold the series of another software too,
	// which are then the better ones to read.
	Fallback bool `yaml:"fallback,omitempty"`
	// Pages are where the page is, in the form of `pages` of an engine. The first one is
	// used for a URL without a path. Default: that of the built-in mapping, `/metrics`
	// in a new one.
	Pages []string `yaml:"pages,omitempty" form:"page" items:"some"`
	// Setup is text for the documentation: what makes the software show the
	// page, and what that costs.
	Setup string `yaml:"setup,omitempty"`
	// Notes is text for the documentation: what to know of the values.
	Notes string `yaml:"notes,omitempty"`
	// Backend are the labels with the name of a backend; the first that a sample has
	// counts. Without one nothing is known by backend.
	Backend []string `yaml:"backend,omitempty" form:"label" items:"some"`
	// Labels restrict all samples: one that has the label must have this
	// value. An empty value excludes all samples that have the label set.
	Labels map[string]string `yaml:"labels,omitempty" form:"label"`
	// Copies are labels whose values distinguish copies of the same thing: of samples
	// that differ only in these, the largest counts.
	Copies []string `yaml:"copies,omitempty" form:"label" items:"some"`
	// Expected are quantities of any kind that every page of this software shows.
	// One that is missing is reported, as it was probably renamed.
	Expected []Quantity `yaml:"expected,omitempty" items:"some"`
	// Values are the sources of each quantity that is one number, the better
	// one first; the first that a page has is used. An empty list leaves the
	// quantity out.
	Values map[Quantity][]EngineSource `yaml:"values,omitempty"`
	// Histograms are the sources of each distribution, in the same way.
	Histograms map[Quantity][]EngineHistogram `yaml:"histograms,omitempty"`
	// PrefixCache are the sources of the requests, blocks or tokens that the gateway
	// sent where it expects their prefix to be cached, in the same way.
	PrefixCache []EnginePrefixCache `yaml:"prefix_cache,omitempty" items:"some"`
	// Requests are the series of ended requests; all of them are added.
	Requests []EngineRequests `yaml:"requests,omitempty" items:"some"`
	// BackendRequests are the series of the requests that a backend answered, where these
	// are others than `requests`; all of them are added.
	BackendRequests []EngineRequests `yaml:"backend_requests,omitempty" items:"some"`
	// Ready are the sources of whether a backend is ready, the better one first. With one,
	// `backends` and `backends_ready` are counted where the page has no such numbers.
	Ready []GatewayReady `yaml:"ready,omitempty" items:"some"`
}

// GatewayReady is where to find whether a backend is ready for requests.
type GatewayReady struct {
	// Series is the name of a gauge with a label of the backend.
	Series string `yaml:"series" form:"series" required:"the name of a series"`
	// Labels restrict the samples to those with these values.
	Labels map[string]string `yaml:"labels,omitempty" form:"label"`
	// Values are those of the gauge that mean that the backend is ready. Of several
	// samples the largest value counts.
	Values []float64 `yaml:"values,omitempty" default:"[1]" items:"some"`
}

// Engine returns the mapping in the form of an engine's.
func (g *GatewayMapping) Engine() *Engine {
	return &Engine{
		Sentinels: g.Sentinels, Fallback: g.Fallback, Pages: g.Pages, Setup: g.Setup, Notes: g.Notes, Labels: g.Labels, Copies: g.Copies,
		Expected: g.Expected, Values: g.Values, Histograms: g.Histograms, PrefixCache: g.PrefixCache, Requests: g.Requests,
		Backend: g.Backend, BackendRequests: g.BackendRequests, Ready: g.Ready,
	}
}

// ParseGatewayMapping reads one mapping from data, as ParseEngine does.
func ParseGatewayMapping(data []byte, name string) (*GatewayMapping, error) {
	return parseMapping[GatewayMapping](data, name)
}

func (g *GatewayMapping) complete(r *report, p path) { g.Engine().complete(r, p) }

func (g *GatewayMapping) check(r *report, p path) {
	g.Engine().checkQuantities(r, p, vocabulary{GatewayNumbers(), GatewayDistributions(), GatewayQuantities(), "docs/gateways.md"})
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
	PrefixCacheHits   Quantity = "prefix_cache_hits"             // counter, see EnginePrefixCache
	PrefixCacheAsked  Quantity = "prefix_cache_queries"          // counter, see EnginePrefixCache
	RequestsFinished  Quantity = "requests"                      // counter, see EngineRequests
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

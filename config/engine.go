package config

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/nearest"
)

// Engine says how to read the metrics page of one server software: which of its
// series hold which quantity. One with the name of a built-in mapping changes
// only what it writes: a list or a plain value replaces the built-in one, and
// in a mapping only the keys that are written change.
type Engine struct {
	// Sentinels are series, any of which identifies a page as this engine's.
	// Default: those of the built-in mapping; a new one needs at least one.
	Sentinels []string `yaml:"sentinels,omitempty" form:"series" items:"some"`
	// Fallback says whether the page may hold the series of another engine too,
	// which are then the better ones to read.
	Fallback bool `yaml:"fallback,omitempty"`
	// Pages are where the page may be, in the order to try: a path, or a port
	// and a path as in `:8002/metrics`. Default: that of the built-in mapping,
	// `/metrics` in a new one.
	Pages []string `yaml:"pages,omitempty" form:"page" items:"some"`
	// Setup is text for the documentation: what makes the software show the
	// page, and what that costs.
	Setup string `yaml:"setup,omitempty"`
	// Notes is text for the documentation: what to know of the values.
	Notes string `yaml:"notes,omitempty"`
	// ModelLabel is the label with the name of the model. Samples of other
	// models than the endpoint's do not count where the page has samples of it,
	// or of more than one other model.
	ModelLabel string `yaml:"model_label,omitempty" form:"label"`
	// RoleLabel is the label that says what part of a request the server does, with one
	// of the values `unified`, `prefill` and `decode`. Any other value is no role.
	RoleLabel string `yaml:"role_label,omitempty" form:"label"`
	// Labels restrict all samples: one that has the label must have this
	// value. An empty value excludes all samples that have the label set.
	Labels map[string]string `yaml:"labels,omitempty" form:"label"`
	// Copies are labels whose values distinguish copies of the same thing, such
	// as the ranks of tensor parallelism or the processes of a front end: of
	// samples that differ only in these, the largest counts.
	Copies []string `yaml:"copies,omitempty" form:"label" items:"some"`
	// Expected are quantities of any kind that every page of this engine shows.
	// One that is missing is reported, as it was probably renamed.
	Expected []Quantity `yaml:"expected,omitempty" items:"some"`
	// ExpectedAfterWork are quantities that every page of this engine shows
	// once the server has generated tokens and ended a request; before that,
	// one that is missing is not reported. `queue` is expected after requests
	// were seen to wait, `inter_token` and `tpot` after an answer of more than
	// one token.
	ExpectedAfterWork []Quantity `yaml:"expected_after_work,omitempty" items:"some"`
	// Progress are series that move while the engine works, not only when a
	// request ends. Without one, the engine's progress has no series.
	Progress []EngineSource `yaml:"progress,omitempty" items:"some"`
	// Values are the sources of each quantity that is one number, the better
	// one first; the first that a page has is used. An empty list leaves the
	// quantity out.
	Values map[Quantity][]EngineSource `yaml:"values,omitempty"`
	// Histograms are the sources of each distribution, in the same way.
	Histograms map[Quantity][]EngineHistogram `yaml:"histograms,omitempty"`
	// InputLengths are the sources of the lengths of the prompts of ended requests,
	// histograms in tokens, in the same way. They are read where a module of the
	// endpoint has `traffic`.
	InputLengths []EngineHistogram `yaml:"input_lengths,omitempty" items:"some"`
	// OutputLengths are those of the lengths of answers.
	OutputLengths []EngineHistogram `yaml:"output_lengths,omitempty" items:"some"`
	// PrefixCache are the sources of the hits of the prefix cache, in the same
	// way.
	PrefixCache []EnginePrefixCache `yaml:"prefix_cache,omitempty" items:"some"`
	// Requests are the series of ended requests; all of them are added.
	Requests []EngineRequests `yaml:"requests,omitempty" items:"some"`

	// The others are those of a GatewayMapping.
	Backend         []string         `yaml:"-"`
	BackendRequests []EngineRequests `yaml:"-"`
	Ready           []GatewayReady   `yaml:"-"`
}

// The ways to make one number of several samples.
const (
	CombineSum = "sum"
	CombineMax = "max"
)

// EngineSource is where to find a number on a page.
type EngineSource struct {
	// Series is the name of the samples, with the suffix of a part of a
	// histogram where it is one. `a:b` also finds `a_b` and `ray_a_b`; a
	// counter is found with and without `_total`.
	Series string `yaml:"series" form:"series" required:"the name of a series"`
	// Labels restrict the samples to those with these values.
	Labels map[string]string `yaml:"labels,omitempty" form:"label"`
	// FromLabel takes the number from the value of this label instead of from
	// that of the sample.
	FromLabel string `yaml:"from_label,omitempty" form:"label"`
	// ItemsOf takes the number of items in the comma-separated list that is the
	// value of this label. Of several samples the one with the largest value counts,
	// which is the latest where the value is a time.
	ItemsOf string `yaml:"items_of,omitempty" form:"label" excludes:"from_label"`
	// Combine is how several samples make one number. Default:
	// `max` for a ratio, for what is per GPU or has no sum (`context_length_tokens`,
	// `kv_cache_block_tokens`, `lora_adapters_max`, `estimated_*_per_gpu`,
	// `model_weights_bytes`, `kv_cache_bytes`, `cuda_graphs_bytes`), and under `if` and
	// `times`; `sum` for all else.
	Combine string `yaml:"combine,omitempty" oneof:"sum,max"`
	// Scale is what the number is multiplied with to be in the unit of the
	// quantity.
	Scale float64 `yaml:"scale,omitempty" default:"1" range:"(0,)"`
	// If is a source without whose number, or with 0 as its number, there is none
	// here: for series that are on the page, as 0, while what they measure is off.
	If *EngineSource `yaml:"if,omitempty"`
	// Plus is a source whose number is added where the page has it. Of sources
	// of one series with other labels it is enough that the page has any.
	Plus *EngineSource `yaml:"plus,omitempty"`
	// Times is a source whose number is multiplied with; where the page does
	// not have it there is no number.
	Times *EngineSource `yaml:"times,omitempty"`
}

// EngineHistogram is where to find a distribution on a page: a histogram, or the
// sum and the number of what was measured.
type EngineHistogram struct {
	// Series is the name of the histogram.
	Series string `yaml:"series,omitempty" form:"series" excludes:"sum,count"`
	// Sum is the name of the counter that adds up what was measured, for an engine
	// that has no histogram: it gives one without bounds.
	Sum string `yaml:"sum,omitempty" form:"series" requires:"count"`
	// Count is the name of the counter of what is in the sum.
	Count string `yaml:"count,omitempty" form:"series" requires:"sum"`
	// Labels restrict the samples to those with these values.
	Labels map[string]string `yaml:"labels,omitempty" form:"label"`
	// Scale is what the values are multiplied with to be in the unit of the
	// quantity.
	Scale float64 `yaml:"scale,omitempty" default:"1" range:"(0,)"`
}

// EnginePrefixCache is where to find the hits of the prefix cache on a page.
type EnginePrefixCache struct {
	// Hits is the source of the counter of what the cache had. Required.
	Hits EngineSource `yaml:"hits"`
	// Queries is the source of the counter of what the cache was asked for, in
	// the same unit. Required.
	Queries EngineSource `yaml:"queries"`
	// Unit is what they count.
	Unit string `yaml:"unit" oneof:"tokens,blocks,requests" required:"tokens, blocks or requests"`
	// Late says that the counter of hits appears with the first hit: a page
	// with queries alone then counts as one without hits, else as one without a value.
	// Default: false.
	Late bool `yaml:"late,omitempty"`
	// LateBehindRay says the same for pages that spell the queries with `ray_`:
	// Ray shows no counter before it counts. Default: false.
	LateBehindRay bool `yaml:"late_behind_ray,omitempty" excludes:"late"`
}

// EngineRequests is where to find a number of ended requests on a page.
type EngineRequests struct {
	// Series is the name of the counters, found as in a source.
	Series string `yaml:"series" form:"series" required:"the name of a series"`
	// Labels restrict the samples to those with these values.
	Labels map[string]string `yaml:"labels,omitempty" form:"label"`
	// With is a label without which a sample does not count: that of the model, where
	// reads of pages and lists are counted as well, without one. Default: none.
	With string `yaml:"with,omitempty" form:"label"`
	// By are the possible names of the label that says how a request ended.
	By []string `yaml:"by,omitempty" form:"label" items:"some"`
	// As maps a value of that label to how a request ended: `stop`, `length`,
	// `abort`, `error`, `success`, `other` or `unknown`.
	As map[string]string `yaml:"as,omitempty" requires:"by"`
	// Else is how the requests with any other value ended. Default: `unknown` without
	// `by`, else `other`.
	Else string `yaml:"else,omitempty" form:"finish"`
}

// ParseEngine reads one mapping from data, in the form of a mapping in the section
// `engines`. Errors are as those of Parse.
func ParseEngine(data []byte, name string) (*Engine, error) {
	r := newReport(name)
	e := new(Engine)
	if root := parseYAML(data, "sentinels", r); root != nil {
		d := newDecoder(r, "")
		d.value(root, "", reflect.ValueOf(e).Elem())
		if !r.failed[""] {
			d.finish("", reflect.ValueOf(e).Elem())
		}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return e, nil
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

// complete sets how several samples make one number, by what it is a number of. A key
// without a value counts as left out: a built-in mapping of the same name supplies it.
func (e *Engine) complete(r *report, p path) {
	dropUnwritten(r, p.key("values"), e.Values)
	for q, sources := range e.Values {
		combine := CombineSum
		if isLargest(q) {
			combine = CombineMax
		}
		for i := range sources {
			orDefault(r, p.key("values").key(string(q)).index(i).key("combine"), &sources[i].Combine, combine)
		}
	}
	dropUnwritten(r, p.key("histograms"), e.Histograms)
	for i := range e.Progress {
		orDefault(r, p.key("progress").index(i).key("combine"), &e.Progress[i].Combine, CombineSum)
	}
}

// dropUnwritten removes the keys without a value. It keeps keys with an empty list.
func dropUnwritten[T any](r *report, p path, m map[Quantity][]T) {
	maps.DeleteFunc(m, func(q Quantity, _ []T) bool { return !r.written(p.key(string(q))) })
}

func (s *EngineSource) complete(r *report, p path) {
	for _, part := range []struct {
		key     string
		source  *EngineSource
		combine string
	}{{"if", s.If, CombineMax}, {"plus", s.Plus, CombineSum}, {"times", s.Times, CombineMax}} {
		if part.source != nil {
			orDefault(r, p.key(part.key).key("combine"), &part.source.Combine, part.combine)
		}
	}
}

func (c *EnginePrefixCache) complete(r *report, p path) {
	orDefault(r, p.key("hits").key("combine"), &c.Hits.Combine, CombineSum)
	orDefault(r, p.key("queries").key("combine"), &c.Queries.Combine, CombineSum)
}

func (h *EngineHistogram) check(r *report, p path) {
	if h.Series == "" && h.Sum == "" && h.Count == "" && !r.failedUnder(p) {
		r.errorf(p.key("series"), "missing; want the name of a histogram, or sum and count")
	}
}

func (q *EngineRequests) complete(r *report, p path) {
	if orDefault(r, p.key("else"), &q.Else, "other"); len(q.By) == 0 {
		orDefault(r, p.key("else"), &q.Else, "unknown")
	}
}

func (q *EngineRequests) check(r *report, p path) {
	for _, value := range slices.Sorted(maps.Keys(q.As)) {
		checkForm(r, p.key("as").key(value), "finish", q.As[value])
	}
}

// check checks the quantities of the mapping: as it may change a built-in one, it need not
// be complete.
func (e *Engine) check(r *report, p path) {
	e.checkQuantities(r, p, vocabulary{Numbers(), Distributions(), Quantities(), "docs/engines.md"})
}

// vocabulary lists the quantities of mappings: those of `values`, those of
// `histograms`, and all; docs is the page that lists them.
type vocabulary struct {
	numbers, distributions, all []Quantity
	docs                        string
}

func (e *Engine) checkQuantities(r *report, p path, known vocabulary) {
	for i, q := range e.Expected {
		checkQuantity(r, p.key("expected").index(i), q, known.all, known)
	}
	for i, q := range e.ExpectedAfterWork {
		checkQuantity(r, p.key("expected_after_work").index(i), q, known.all, known)
	}
	for _, q := range slices.Sorted(maps.Keys(e.Values)) {
		checkQuantity(r, p.key("values").key(string(q)), q, known.numbers, known)
	}
	for _, q := range slices.Sorted(maps.Keys(e.Histograms)) {
		checkQuantity(r, p.key("histograms").key(string(q)), q, known.distributions, known)
	}
}

// isPage reports whether s is a path, with or without a port before it.
func isPage(s string) bool {
	if host, path, ok := strings.Cut(s, "/"); ok && strings.HasPrefix(host, ":") {
		port, err := strconv.ParseUint(host[1:], 10, 16)
		return err == nil && port > 0 && isPath("/"+path)
	}
	return isPath(s)
}

// checkQuantity checks that a quantity is one of those that may be here.
func checkQuantity(r *report, p path, q Quantity, here []Quantity, known vocabulary) {
	if slices.Contains(here, q) {
		return
	}
	if slices.Contains(known.all, q) {
		r.errorf(p, "quantity %s belongs under %s", quote(string(q)), sectionOf(q))
		return
	}
	words := make([]string, len(here))
	for i, k := range here {
		words[i] = string(k)
	}
	r.errorf(p, "unknown quantity %s; the nearest are %s (%s lists all)", quote(string(q)), strings.Join(nearest.Names(string(q), words, 3), ", "), known.docs)
}

// sectionOf returns the key of a mapping that a quantity has its sources under.
func sectionOf(q Quantity) string {
	switch {
	case q == PrefixCacheHits || q == PrefixCacheAsked:
		return "prefix_cache"
	case q == RequestsFinished:
		return "requests"
	case slices.Contains(Distributions(), q) || q == RoutingTime:
		return "histograms"
	}
	return "values"
}

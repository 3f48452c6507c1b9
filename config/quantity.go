package config

// Quantity is something that servers tell of themselves, in the one vocabulary
// for all engines: the name of a metric less its prefix and suffix.
type Quantity string

// The quantities that are one number.
const (
	RequestsRunning  Quantity = "requests_running"            // requests in the batch
	RequestsWaiting  Quantity = "requests_waiting"            // requests in the queue
	KVCacheUsage     Quantity = "kv_cache_usage_ratio"        // 0 to 1, what is kept for reuse alone not counted where the engine can tell
	KVCacheCapacity  Quantity = "kv_cache_capacity_tokens"    // tokens
	ContextLength    Quantity = "context_length_tokens"       // tokens of prompt and answer together, at most
	PromptTokens     Quantity = "prompt_tokens"               // counter, cached ones included
	GenerationTokens Quantity = "generation_tokens"           // counter
	Preemptions      Quantity = "preemptions"                 // counter, requests
	EvictedTokens    Quantity = "kv_cache_evicted_tokens"     // counter
	DraftTokens      Quantity = "spec_decode_draft_tokens"    // counter
	AcceptedTokens   Quantity = "spec_decode_accepted_tokens" // counter
	PrefixCacheHits  Quantity = "prefix_cache_hits"           // counter, see EnginePrefixCache
	PrefixCacheAsked Quantity = "prefix_cache_queries"        // counter, see EnginePrefixCache
	RequestsFinished Quantity = "requests"                    // counter, see EngineRequests
)

// The quantities that are distributions: histograms, in seconds.
const (
	TTFT            Quantity = "ttft"        // from the arrival of a request to its first token
	TPOT            Quantity = "tpot"        // mean over a request after its first token
	InterToken      Quantity = "inter_token" // between two tokens
	QueueTime       Quantity = "queue"
	PrefillTime     Quantity = "prefill"
	DecodeTime      Quantity = "decode"
	RequestDuration Quantity = "request_duration"
)

// Numbers lists the quantities that may stand under `values`: gauges, then
// counters.
func Numbers() []Quantity {
	return []Quantity{
		RequestsRunning, RequestsWaiting, KVCacheUsage, KVCacheCapacity, ContextLength,
		PromptTokens, GenerationTokens, Preemptions, EvictedTokens, DraftTokens, AcceptedTokens,
	}
}

// Distributions lists the quantities that may stand under `histograms`.
func Distributions() []Quantity {
	return []Quantity{TTFT, TPOT, InterToken, QueueTime, PrefillTime, DecodeTime, RequestDuration}
}

// Quantities lists all quantities: Numbers, those that have a section of their
// own, and Distributions.
func Quantities() []Quantity {
	all := append(Numbers(), PrefixCacheAsked, PrefixCacheHits, RequestsFinished)
	return append(all, Distributions()...)
}

// IsCounter tells whether a quantity grows until its server restarts. A
// distribution is none, though its parts do the same.
func IsCounter(q Quantity) bool {
	switch q {
	case PromptTokens, GenerationTokens, Preemptions, EvictedTokens, DraftTokens, AcceptedTokens,
		PrefixCacheHits, PrefixCacheAsked, RequestsFinished:
		return true
	}
	return false
}

// IsRatio tells whether a quantity is a share, from 0 to 1.
func IsRatio(q Quantity) bool { return q == KVCacheUsage }

// Finishes lists how a request can end, as engines tell it. Success is for an
// engine that tells no more than that it ended well.
func Finishes() []string {
	return []string{"stop", "length", "abort", "error", "success", "other", "unknown"}
}

// PrefixCacheUnits lists what the hits of a prefix cache are counted in.
func PrefixCacheUnits() []string { return []string{"tokens", "blocks", "requests"} }

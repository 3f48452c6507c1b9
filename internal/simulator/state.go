package simulator

// State is what a replica holds and has done.
type State struct {
	// Running and Waiting count sequences in the batch and in the queue.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// Blocks is the size of the KV cache, BlocksInUse the part that sequences
	// own; a block kept only for reuse is not in use.
	Blocks      int `json:"blocks"`
	BlocksInUse int `json:"blocks_in_use"`
	// PrefixQueries and PrefixHits count prompt tokens looked up and found in
	// the prefix cache, once per request.
	PrefixQueries uint64 `json:"prefix_queries"`
	PrefixHits    uint64 `json:"prefix_hits"`
	// ReusedBlocks and MissedBlocks count full blocks of prompts that were in
	// the prefix cache and that were not, once per request.
	ReusedBlocks uint64 `json:"reused_blocks"`
	MissedBlocks uint64 `json:"missed_blocks"`
	// EvictedBlocks counts blocks whose content was given up for another.
	EvictedBlocks uint64 `json:"evicted_blocks"`
	// PromptTokens counts prompts whose prefill is done, cached part included;
	// CachedTokens is that part.
	PromptTokens uint64 `json:"prompt_tokens"`
	CachedTokens uint64 `json:"cached_tokens"`
	// GeneratedTokens counts sampled tokens.
	GeneratedTokens uint64 `json:"generated_tokens"`
	// Ended counts the tokens of the requests that came to their end.
	Ended Tokens `json:"ended"`
	// Steps counts passes of the model over the batch.
	Steps uint64 `json:"steps"`
	// Preemptions counts sequences thrown back into the queue.
	Preemptions uint64 `json:"preemptions"`
	// Rejected counts requests that found the queue full.
	Rejected uint64 `json:"rejected"`
	// FirstTokens counts requests that got a first token, FirstTokenSeconds
	// is the sum of the times that they waited for it.
	FirstTokens       uint64  `json:"first_tokens"`
	FirstTokenSeconds float64 `json:"first_token_seconds"`
	// Finished counts requests by how they ended: stop, length, abort.
	Finished map[string]uint64 `json:"finished"`
}

// Tokens are those of requests that ended by themselves, not aborted. Prompt
// includes Cached.
type Tokens struct {
	Prompt    uint64 `json:"prompt"`
	Cached    uint64 `json:"cached"`
	Generated uint64 `json:"generated"`
}

func (r *replica) state() State {
	v := r.view()
	st := v.all().stats
	s := State{
		Running: v.running, Waiting: v.waiting, Blocks: v.blocks, BlocksInUse: v.used,
		PrefixQueries: st.queries, PrefixHits: st.hits, ReusedBlocks: st.reusedBlocks, MissedBlocks: st.missedBlocks,
		EvictedBlocks: v.evicted, PromptTokens: st.prompt, CachedTokens: st.cached, GeneratedTokens: st.generated,
		Ended: st.ended, Steps: st.observed[batchSize].count(), Preemptions: st.preemptions, Rejected: st.rejected,
		FirstTokens: st.observed[firstToken].count(), FirstTokenSeconds: st.observed[firstToken].sum,
		Finished: make(map[string]uint64),
	}
	for reason, n := range st.finished {
		s.Finished[string(reason)] = n
	}
	return s
}

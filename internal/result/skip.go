package result

// SkipReason says why a run measured nothing. The set is closed: it is a label
// value.
type SkipReason string

const (
	// SkipContext is a model whose context has no room for what the module asks.
	SkipContext SkipReason = "context_length"
	// SkipModel is a server with several models and a configuration that names
	// none.
	SkipModel SkipReason = "model_not_set"
	// SkipTruncated is a server that truncates the prompt, so that what it answers
	// is no answer to a prompt of that length.
	SkipTruncated SkipReason = "prompt_truncated"
	// SkipResources is a lack of descriptors, memory or ports on this machine.
	SkipResources SkipReason = "resources"
)

// Skip is why a run measured nothing although the server did not fail: the
// configuration and the server do not fit together, or this machine lacks
// something.
type Skip struct {
	Reason SkipReason
	// Spent are the results of requests that were made nevertheless, since nobody
	// knew before. Their tokens are paid for; they say nothing else.
	Spent []*Result
	// Text says for people what to change: one bounded line that may quote the
	// server.
	Text string
}

// Error returns Text.
func (s *Skip) Error() string { return s.Text }

// Spent returns the results of all requests that a run made, given what Run returned:
// those that cost something.
func Spent(results []*Result, why *Skip) []*Result {
	if why != nil {
		return why.Spent
	}
	return results
}

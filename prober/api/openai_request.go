package api

// openAIRequest is the body of both OpenAI protocols: chat has Messages,
// completions have Prompt.
type openAIRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages,omitempty"`
	Prompt        string        `json:"prompt,omitempty"`
	MaxTokens     int           `json:"max_tokens"`
	MinTokens     int           `json:"min_tokens,omitempty"`
	IgnoreEOS     bool          `json:"ignore_eos,omitempty"`
	Temperature   float64       `json:"temperature"`
	Stream        bool          `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
}

// streamOptions asks for the token counts. Defaults differ by server, hence
// IncludeUsage is always sent.
type streamOptions struct {
	IncludeUsage         bool `json:"include_usage"`
	ContinuousUsageStats bool `json:"continuous_usage_stats,omitempty"`
}

// newOpenAIRequest fills what both protocols share. Temperature 0 asks for the
// same answer every time. Only parameters that the original service knows are
// always sent: some servers refuse a request for one unknown key.
func newOpenAIRequest(p Params) openAIRequest {
	r := openAIRequest{
		Model:     p.Model,
		MaxTokens: p.OutputTokens,
		Stream:    true,
		StreamOptions: streamOptions{
			IncludeUsage:         true,
			ContinuousUsageStats: p.ContinuousUsage,
		},
	}
	if p.ExactLength {
		r.MinTokens, r.IgnoreEOS = p.OutputTokens, true
	}
	return r
}

package api

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// openAIRequest is the body of both OpenAI protocols: chat has Messages,
// completions have Prompt.
type openAIRequest struct {
	Model         string          `json:"model"`
	Messages      []openAIMessage `json:"messages,omitempty"`
	Prompt        string          `json:"prompt,omitempty"`
	MaxTokens     int             `json:"max_tokens"`
	Temperature   float64         `json:"temperature"`
	Stream        bool            `json:"stream"`
	StreamOptions streamOptions   `json:"stream_options"`
}

type openAIMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// streamOptions asks for the token counts. Defaults differ by server, hence
// IncludeUsage is always sent.
type streamOptions struct {
	IncludeUsage         bool `json:"include_usage"`
	ContinuousUsageStats bool `json:"continuous_usage_stats,omitempty"`
}

// newOpenAIRequest fills what both protocols share. Temperature 0 asks for the
// same answer every time.
func newOpenAIRequest(p Params) openAIRequest {
	return openAIRequest{
		Model:     p.Model,
		MaxTokens: p.OutputTokens,
		Stream:    true,
		StreamOptions: streamOptions{
			IncludeUsage:         true,
			ContinuousUsageStats: p.ContinuousUsage,
		},
	}
}

// encode writes the body. It refuses a request without a cap on the answer,
// which some servers take as a request without end.
func (r openAIRequest) encode() ([]byte, error) {
	if r.MaxTokens < 1 {
		return nil, fmt.Errorf("build request body: output tokens %d, want at least 1", r.MaxTokens)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // so that the prompt's length on the wire is its own
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("build request body: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

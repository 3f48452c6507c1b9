package api

import (
	"net/url"

	"github.com/valyala/fastjson"
)

// docEcho is what Doc.Scoring says of OpenAI's protocols.
const docEcho = "`/v1/completions` with `echo` and `logprobs`, on vLLM, SGLang, llama-cpp-python and whoever else echoes; llama.cpp, Ollama and TGI do not"

// openAIScoring is POST /v1/completions with echo: the reply has the prompt
// before the answer, and the log-probabilities of both.
func openAIScoring() *TextScoring {
	return &TextScoring{
		URL: func(base *url.URL) *url.URL { return under(base, completionsPath) },
		Body: func(model, text string) ([]byte, error) {
			return encodeJSON(openAIScoringRequest{
				Model: model, Prompt: text, MaxTokens: scoringTokens, Echo: true, Logprobs: 1,
			})
		},
		Parse: scoringParser(openAIScores),
	}
}

type openAIScoringRequest struct {
	Model       string  `json:"model"`
	Prompt      string  `json:"prompt"`
	MaxTokens   int     `json:"max_tokens"`
	Temperature float64 `json:"temperature"`
	Echo        bool    `json:"echo"`
	Logprobs    int     `json:"logprobs"`
	Stream      bool    `json:"stream"`
}

// openAIScores tells the prompt from the answer by the counts in usage:
// text_offset is -1 at SGLang, and elsewhere counts what is no part of the
// text, as the beginning of text. A server that ignores echo tells of the
// answer alone.
func openAIScores(reply *fastjson.Value) ([]*fastjson.Value, error) {
	all := firstChoice(reply).GetArray("logprobs", "token_logprobs")
	prompt, answer := count(reply.Get("usage", "prompt_tokens")), count(reply.Get("usage", "completion_tokens"))
	scored := len(all) - max(answer, 0)
	if err := checkScored(scored, prompt); err != nil {
		return nil, err
	}
	return all[:scored], nil
}

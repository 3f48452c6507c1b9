package api

import (
	"net/url"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// completions is the legacy OpenAI Completions, POST /v1/completions: no chat
// template and no parser of reasoning between the engine and the reply.
func completions() Protocol {
	return Protocol{
		Name: "openai-completions", Operation: OperationCompletion,
		Kind: Generation, Framing: stream.SSE, MediaTypes: []string{eventStreamType},
		URL: versioned(completionsPath), Header: eventStreamHeader(), Models: openAIModels(), Scoring: openAIScoring(),
		Body: func(p Params) ([]byte, error) {
			r := newOpenAIRequest(p)
			r.Prompt = oneText(p)
			if p.TopLogprobs > 0 {
				r.Logprobs = p.TopLogprobs
			}
			return encodeBody(p, r)
		},
		MaxTokens:  "max_tokens",
		NewDecoder: func() Decoder { return &openAIDecoder{material: (*openAIDecoder).completionMaterial} },
		Doc: Doc{
			Title: "OpenAI Completions (legacy)", Servers: "vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama, Triton",
			Auth:       "`http.authorization.credentials`",
			FirstToken: "`choices[0].text` with content", End: "`[DONE]`",
			Usage: "`usage`, asked by `stream_options.include_usage`", Cached: "as openai-chat",
			ServerTimes:  "as openai-chat",
			Length:       "exact on vLLM, SGLang, TensorRT-LLM and llama.cpp; a cap elsewhere",
			Conversation: docOneText,
			Model:        "`model`", Fingerprint: "as openai-chat", Scoring: docEcho,
			Logprobs: "`logprobs.top_logprobs[0]`, or as openai-chat",
		},
	}
}

// completionMaterial reads choices[].text.
func (o *openAIDecoder) completionMaterial(choice *fastjson.Value, d *Delta) {
	d.Text = choice.GetStringBytes("text")
}

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

// openAIScores separates the prompt from the answer by the counts in usage:
// text_offset is -1 at SGLang, and elsewhere counts what is no part of the
// text, as the beginning of text. A server that ignores echo has those of
// the answer alone.
func openAIScores(reply *fastjson.Value) ([]*fastjson.Value, error) {
	all := firstChoice(reply).GetArray("logprobs", "token_logprobs")
	prompt, answer := count(reply.Get("usage", "prompt_tokens")), count(reply.Get("usage", "completion_tokens"))
	scored := len(all) - max(answer, 0)
	if err := checkScored(scored, prompt); err != nil {
		return nil, err
	}
	return all[:scored], nil
}

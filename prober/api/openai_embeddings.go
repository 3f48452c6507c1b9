package api

import "github.com/inference-exporter/inference_exporter/prober/stream"

// openAIEmbeddings is OpenAI Embeddings, POST /v1/embeddings.
func openAIEmbeddings() Protocol {
	type request struct {
		Model          string   `json:"model"`
		Input          []string `json:"input"`
		EncodingFormat string   `json:"encoding_format"`
	}
	return Protocol{
		Name: "openai-embeddings", Operation: OperationEmbeddings,
		Kind: Embedding, Framing: stream.Whole, MediaTypes: []string{jsonType},
		URL: versioned(embeddingsPath), Header: acceptHeader(jsonType), Models: openAIModels(),
		Body: func(p Params) ([]byte, error) {
			return encodeInputs(p, request{Model: p.Model, Input: p.Inputs, EncodingFormat: "float"})
		},
		NewDecoder: func() Decoder { return new(embeddingDecoder) },
		Doc: Doc{
			Title: "OpenAI Embeddings", Servers: "vLLM, SGLang, llama.cpp, Ollama, TEI, gateways and most hosted services",
			Auth: "`http.authorization.credentials`",
			End:  "the end of the body", Usage: "`usage.prompt_tokens`",
		},
	}
}

package api

import (
	"net/url"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// cohereEmbed is Cohere's POST /v2/embed.
func cohereEmbed() Protocol {
	type request struct {
		Model          string   `json:"model"`
		InputType      string   `json:"input_type"`
		Texts          []string `json:"texts"`
		EmbeddingTypes []string `json:"embedding_types"`
	}
	return Protocol{
		Name: "cohere-embed", Hosted: true, Operation: OperationEmbeddings,
		Kind: Embedding, Framing: stream.Whole, MediaTypes: []string{jsonType},
		URL: func(base *url.URL, _ string) *url.URL { return cohereURL(base, "/v2/embed") }, Header: acceptHeader(jsonType),
		Body: func(p Params) ([]byte, error) {
			return encodeInputs(p, request{Model: p.Model, InputType: "search_document", Texts: p.Inputs, EmbeddingTypes: []string{"float"}})
		},
		NewDecoder: func() Decoder { return new(embeddingDecoder) },
		Doc: Doc{
			Title: "Cohere Embed v2", Servers: "Cohere",
			Auth: "`http.authorization.credentials`",
			End:  "the end of the body", Usage: "`meta.tokens.input_tokens`, else `meta.billed_units.input_tokens`",
		},
	}
}

package simulator

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
)

// textList is a list of texts, which may be given as one text.
type textList []string

// UnmarshalJSON reads either form.
func (l *textList) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*l = textList{text}
		return nil
	}
	var list []string
	if json.Unmarshal(data, &list) != nil {
		return errors.New("input is neither a text nor a list of texts")
	}
	*l = list
	return nil
}

// embeddingRequest holds the texts under the name that a protocol has for them.
type embeddingRequest struct {
	Model          string   `json:"model"`
	Input          textList `json:"input"`  // OpenAI, Ollama
	Inputs         textList `json:"inputs"` // TEI
	Texts          textList `json:"texts"`  // Cohere
	EncodingFormat string   `json:"encoding_format"`
	EmbeddingTypes []string `json:"embedding_types"`
	InputType      string   `json:"input_type"`
}

// parseEmbedding returns a parser that takes the texts by pick.
func parseEmbedding(pick func(embeddingRequest) textList) func([]byte) (ask, error) {
	return func(body []byte) (ask, error) {
		var q embeddingRequest
		if err := json.Unmarshal(body, &q); err != nil {
			return ask{}, badRequest("body is not a valid request: " + err.Error())
		}
		in, err := newInputs("", pick(q))
		if err != nil {
			return ask{}, err
		}
		in.base64 = q.EncodingFormat == "base64"
		return ask{model: q.Model, inputs: in}, nil
	}
}

// openaiEmbeddings is POST /v1/embeddings.
func openaiEmbeddings() protocol {
	parse := parseEmbedding(func(q embeddingRequest) textList { return q.Input })
	return aboutInputs("/v1/embeddings", parse, func(h replyHeader, w *whole) any {
		data := []jsonMap{}
		for i, v := range w.inputs.vectors() {
			item := jsonMap{"object": "embedding", "index": i, "embedding": v}
			if w.inputs.base64 {
				item["embedding"] = base64Vector(v)
			}
			data = append(data, item)
		}
		return jsonMap{
			"id": "embd-" + h.id, "object": "list", "created": h.created, "model": h.model, "data": data,
			"usage": jsonMap{"prompt_tokens": w.usage.prompt, "total_tokens": w.usage.prompt, "completion_tokens": 0},
		}
	})
}

// base64Vector encodes little-endian 32-bit floats.
func base64Vector(v []float32) string {
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// teiEmbed is TEI's POST /embed.
func teiEmbed() protocol {
	parse := parseEmbedding(func(q embeddingRequest) textList { return q.Inputs })
	p := aboutInputs("/embed", parse, func(_ replyHeader, w *whole) any { return w.inputs.vectors() })
	p.header, p.failure = teiHeader, teiFailure
	return p
}

// ollamaEmbed is Ollama's POST /api/embed, which tells its times in
// nanoseconds.
func ollamaEmbed() protocol {
	parse := parseEmbedding(func(q embeddingRequest) textList { return q.Input })
	p := aboutInputs("/api/embed", parse, func(h replyHeader, w *whole) any {
		return jsonMap{
			"model": h.model, "embeddings": w.inputs.vectors(),
			"total_duration": w.took.Nanoseconds() + 1, "load_duration": 1, "prompt_eval_count": w.usage.prompt,
		}
	})
	p.failure = func(r refusal) []byte { return []byte(`{"error":` + quote(r.message) + `}`) }
	return p
}

// cohereEmbed is Cohere's POST /v2/embed.
func cohereEmbed() protocol {
	parse := parseEmbedding(func(q embeddingRequest) textList { return q.Texts })
	p := aboutInputs("/v2/embed", parse, func(h replyHeader, w *whole) any {
		return jsonMap{
			"id": h.id, "embeddings": jsonMap{"float": w.inputs.vectors()}, "response_type": "embeddings_by_type",
			"meta": jsonMap{
				"api_version": jsonMap{"version": "2"}, "billed_units": jsonMap{"input_tokens": w.usage.prompt},
				"tokens": jsonMap{"input_tokens": w.usage.prompt},
			},
		}
	})
	p.failure = func(r refusal) []byte { return []byte(`{"message":` + quote(r.message) + `}`) }
	return p
}

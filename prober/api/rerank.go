package api

import (
	"fmt"
	"net/url"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const rerankPath = "/rerank"

// rerank is POST /rerank as TEI has it, and POST /v1/rerank or /v2/rerank as
// Jina, Cohere, vLLM, SGLang and llama.cpp have it.
func rerank() Protocol {
	return Protocol{
		Name: "rerank", Operation: OperationRerank,
		Kind: Rerank, Framing: stream.Whole, MediaTypes: []string{jsonType},
		URL: rerankURL, Header: acceptHeader(jsonType),
		Body:          rerankBody,
		NewDecoder:    func() Decoder { return new(rerankDecoder) },
		ModelOptional: true,
		Usage:         teiUsage,
		ServerTimes:   teiTimes,
		Doc: Doc{
			Title: "Rerank", Servers: "TEI at a URL without a version; Jina, Cohere (`…/v2`), vLLM, SGLang and llama.cpp at one with a version",
			Auth: "`http.authorization.credentials`",
			End:  "the end of the body", Usage: "`usage`, `meta.tokens.input_tokens`, TEI's header `x-compute-tokens`; not from SGLang",
			ServerTimes: "TEI's headers `x-queue-time` and `x-inference-time`",
		},
	}
}

// rerankURL extends the base, be there a version in it or not.
func rerankURL(base *url.URL, _ string) *url.URL { return fixed(base, rerankPath) }

// rerankBody writes the texts to rank by the name that the dialect has for
// them: texts at TEI, documents elsewhere. A path without a version may belong
// to either, and no server of those refuses the other name; services with a
// version in their path do.
func rerankBody(p Params) ([]byte, error) {
	type request struct {
		Model     string   `json:"model,omitempty"`
		Query     string   `json:"query"`
		Texts     []string `json:"texts,omitempty"`
		Documents []string `json:"documents"`
	}
	r := request{Model: p.Model, Query: p.Prompt, Documents: p.Inputs}
	if !hasVersion(p.Path) {
		r.Texts = p.Inputs
	}
	return encodeInputs(p, r)
}

// rerankDecoder decodes the one frame of a reply with scores: a bare array
// (TEI, SGLang), results (Jina, Cohere, vLLM, llama.cpp) or data (Voyage).
type rerankDecoder struct {
	frame
	vectors Vectors // what Delta.Vectors points to
	keep    bool
	values  [][]float32
}

// KeepValues implements ValueDecoder.
func (r *rerankDecoder) KeepValues() { r.keep = true }

// Values implements ValueDecoder.
func (r *rerankDecoder) Values() [][]float32 { return r.values }

// Decode implements Decoder.
func (r *rerankDecoder) Decode(_ string, data []byte, d *Delta) error {
	*d = Delta{Tokens: Unknown}
	r.values = nil
	reply, err := parseJSON(&r.parser, data)
	if err != nil {
		return err
	}
	if d.Err = errorIn(reply); d.Err != nil {
		return nil
	}
	list := firstArray(reply, reply.Get("results"), reply.Get("data"))
	if list == nil {
		return fmt.Errorf("%w: no list of scores: %s", ErrProtocol, bounded(data))
	}
	r.vectors = Vectors{}
	items := list.GetArray()
	var scores []float32
	for _, item := range items {
		score := firstNumber(item.Get("relevance_score"), item.Get("score"))
		if score == nil {
			continue
		}
		r.vectors.Items++
		if r.keep {
			scores = append(scores, float32(score.GetFloat64()))
		}
	}
	if scores = inOrder(scores, items, true); scores != nil {
		r.values = [][]float32{scores}
	}
	d.Vectors, d.Done = &r.vectors, true
	r.setUsage(d, inputUsage(reply))
	return nil
}

// firstNumber returns the first value that is a number, which may be negative; nil is
// none.
func firstNumber(values ...*fastjson.Value) *fastjson.Value {
	for _, v := range values {
		if v != nil && v.Type() == fastjson.TypeNumber {
			return v
		}
	}
	return nil
}

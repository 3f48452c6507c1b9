package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// rerank is POST /rerank as TEI has it, and POST /v1/rerank or /v2/rerank as
// Jina, Cohere, vLLM, SGLang and llama.cpp have it.
func rerank() Protocol {
	return Protocol{
		Name: "rerank", Operation: OperationRerank, Kind: Rerank, Framing: stream.Whole, ModelOptional: true,
		URL: server{}.path("/rerank"), Headers: teiHeaders,
		// Texts are texts at TEI and documents elsewhere. A path without a version may belong to either, and no server
		// of those refuses the other name; services with a version in their path do.
		body: func(p Params) fields {
			return fields{{"model", given(p.Model)}, {"query", p.Prompt}, {"texts", when(!hasVersion(p.Path), p.Inputs)}, {"documents", p.Inputs}}
		},
		NewDecoder: func() Decoder { return new(rerankDecoder) },
	}
}

// rerankDecoder decodes the one frame of a reply with scores: a bare array
// (TEI, SGLang), results (Jina, Cohere, vLLM, llama.cpp) or data (Voyage).
type rerankDecoder struct {
	frame
	parser  fastjson.Parser
	vectors Vectors // what Delta.Vectors points to
	keep    bool
}

func (r *rerankDecoder) KeepValues() { r.keep = true }

func (r *rerankDecoder) Decode(_, data []byte, d *Delta) error {
	return decodeWhole(&r.parser, data, d, func(reply *fastjson.Value) error { return r.readScores(reply, data, d) })
}

// readScores reads the scores; data is for the text of an error.
func (r *rerankDecoder) readScores(reply *fastjson.Value, data []byte, d *Delta) error {
	list := first(fastjson.TypeArray, reply, reply.Get("results"), reply.Get("data"))
	if list == nil {
		return fmt.Errorf("%w: no list of scores: %s", ErrProtocol, bounded(data))
	}
	r.vectors = Vectors{}
	items := list.GetArray()
	var scores []float32
	for _, item := range items {
		// It may be negative.
		score := first(fastjson.TypeNumber, item.Get("relevance_score"), item.Get("score"))
		if score == nil {
			continue
		}
		r.vectors.Items++
		if r.keep {
			scores = append(scores, float32(score.GetFloat64()))
		}
	}
	if scores = inOrder(scores, items, true); scores != nil {
		d.Values = [][]float32{scores}
	}
	d.Vectors = &r.vectors
	r.setUsage(d, inputUsage(reply))
	return nil
}

// teiHeaders reads how many tokens were computed, which is the prompt's count as TEI keeps no prefix cache, and the
// server's own timing in milliseconds. The whole of an inference is Prefill: there is nothing to decode.
func teiHeaders(h http.Header) (Usage, ServerTimes) {
	u := noUsage()
	if n := remaining(h.Get("X-Compute-Tokens")); n <= maxCount {
		u.Prompt = n
	}
	took := func(name string) time.Duration {
		if d := wait(h.Get(name), time.Millisecond); d < maxServerTime {
			return d
		}
		return -1
	}
	return u, ServerTimes{Queue: took("X-Queue-Time"), Prefill: took("X-Inference-Time"), Decode: -1}
}

package api

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// embedding is what the protocols that embed share: one reply, in one piece.
func embedding(p Protocol, body func(Params) fields) Protocol {
	p.Operation, p.Kind, p.Framing, p.body = OperationEmbeddings, Embedding, stream.Whole, body
	p.NewDecoder = func() Decoder { return new(inputsDecoder) }
	return p
}

// openAIEmbeddings is OpenAI Embeddings, POST /v1/embeddings.
func openAIEmbeddings() Protocol {
	return embedding(Protocol{Name: "openai-embeddings", URL: versioned(embeddingsPath), Models: openAIModels()}, func(p Params) fields {
		return fields{{"model", p.Model}, {"input", p.Inputs}, {"encoding_format", "float"}}
	})
}

// tei is the native protocol of Text Embeddings Inference, POST /embed. A
// server has one model, which a request does not name.
func tei() Protocol {
	at := server{"/embed", "/info", "/rerank", "/v1"}
	return embedding(Protocol{
		Name: "tei", Engine: TEI, URL: at.path("/embed"), Models: at.models("/info", parseTGIInfo), ModelOptional: true,
		Headers: teiHeaders,
	}, func(p Params) fields { return fields{{"inputs", p.Inputs}} })
}

// ollamaEmbed is Ollama's native POST /api/embed.
func ollamaEmbed() Protocol {
	return embedding(Protocol{
		Name: "ollama-embed", Engine: Ollama, URL: ollamaServer().path("/api/embed"), Models: ollamaServer().models("/api/tags", parseOllamaModels),
	}, func(p Params) fields { return fields{{"model", p.Model}, {"input", p.Inputs}} })
}

// cohereEmbed is Cohere's POST /v2/embed.
func cohereEmbed() Protocol {
	return embedding(Protocol{Name: "cohere-embed", Hosted: true, URL: cohereServer().path("/v2/embed")}, func(p Params) fields {
		return fields{{"model", p.Model}, {"input_type", "search_document"}, {"texts", p.Inputs}, {"embedding_types", []string{"float"}}}
	})
}

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
		NewDecoder: func() Decoder { return &inputsDecoder{scores: true} },
	}
}

// inputsDecoder decodes the one frame of a reply with an embedding or a score for each input, in the shapes of all
// protocols that have such replies.
type inputsDecoder struct {
	frame
	reader vectorReader
	scores bool // and no embeddings
}

func (i *inputsDecoder) KeepValues() { i.reader.keep = true }

func (i *inputsDecoder) Decode(_, data []byte, d *Delta) error {
	if err := i.reader.read(data); err != nil {
		return err
	}
	return decodeWhole(i.reader.text, d, func(reply *fastjson.Value) error {
		i.setUsage(d, inputUsage(reply))
		i.setServer(d, ollamaEmbedTimes(reply))
		if i.scores {
			return i.readScores(reply, data, d)
		}
		return i.readVectors(reply, data, d)
	})
}

// readVectors measures the embeddings; data is for the text of an error.
func (i *inputsDecoder) readVectors(reply *fastjson.Value, data []byte, d *Delta) error {
	list := first(fastjson.TypeArray, reply, reply.Get("data"), reply.Get("embeddings"), reply.Get("embeddings", "float"))
	if list == nil {
		return fmt.Errorf("%w: no list of embeddings: %s", ErrProtocol, bounded(data))
	}
	var all Vectors
	var values [][]float32
	numbers, items := 0, list.GetArray()
	for _, item := range items {
		if item.Type() == fastjson.TypeObject {
			item = item.Get("embedding")
		}
		v, ok := i.reader.measured(item)
		if !ok {
			continue
		}
		switch {
		case all.Items == 0:
			all.Dimensions = v.dimensions
		case v.dimensions != all.Dimensions:
			all.Dimensions = Unknown
		}
		all.Items++
		all.Norm += math.Sqrt(v.squares)
		numbers += v.dimensions
		values = append(values, v.values)
	}
	all.Norm /= float64(max(1, all.Items))
	if math.IsNaN(all.Norm) || math.IsInf(all.Norm, 0) {
		return fmt.Errorf("%w: embedding with a number that is not finite or too large", ErrProtocol)
	}
	d.Vectors = &all
	if i.reader.keep && numbers <= maxKeptNumbers {
		d.Values = inOrder(values, items, false)
	}
	return nil
}

// readScores reads the scores; data is for the text of an error.
func (i *inputsDecoder) readScores(reply *fastjson.Value, data []byte, d *Delta) error {
	list := first(fastjson.TypeArray, reply, reply.Get("results"), reply.Get("data"))
	if list == nil {
		return fmt.Errorf("%w: no list of scores: %s", ErrProtocol, bounded(data))
	}
	d.Vectors = new(Vectors)
	items := list.GetArray()
	var scores []float32
	for _, item := range items {
		// It may be negative.
		score := first(fastjson.TypeNumber, item.Get("relevance_score"), item.Get("score"))
		if score == nil {
			continue
		}
		d.Vectors.Items++
		if i.reader.keep {
			scores = append(scores, float32(score.GetFloat64()))
		}
	}
	if scores = inOrder(scores, items, true); scores != nil {
		d.Values = [][]float32{scores}
	}
	return nil
}

// first returns the first value of a type; nil is none.
func first(kind fastjson.Type, values ...*fastjson.Value) *fastjson.Value {
	for _, v := range values {
		if v != nil && v.Type() == kind {
			return v
		}
	}
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

// inputUsage reads how many tokens the inputs were: OpenAI and the like in usage (some rerankers only as the
// total), Ollama beside the embeddings, Cohere in meta.
func inputUsage(reply *fastjson.Value) Usage {
	u := noUsage()
	u.Prompt = countAt(reply, "usage.prompt_tokens", "usage.total_tokens", "prompt_eval_count", "meta.tokens.input_tokens", "meta.billed_units.input_tokens")
	return u
}

// vector is what is kept of a vector.
type vector struct {
	dimensions int
	squares    float64   // the sum of the squares of the numbers
	values     []float32 // nil unless they are kept
}

func (v *vector) add(f float64, keep bool) {
	v.dimensions++
	v.squares += f * f
	if keep && v.dimensions <= maxKeptNumbers {
		v.values = append(v.values, float32(f))
	}
}

// vectorReader measures the vectors of a JSON text and keeps their numbers only if it
// is asked to: a batch has more of them than a parsed text may hold. It replaces each
// array of numbers by the array of one number that is the vector's place in vectors.
type vectorReader struct {
	text    []byte
	vectors []vector
	keep    bool // the numbers too
}

// read measures the vectors of a text, which need not be JSON.
func (r *vectorReader) read(text []byte) error {
	r.text, r.vectors = r.text[:0], r.vectors[:0]
	for len(text) > 0 {
		n := bytes.IndexAny(text, `"[`)
		if n < 0 {
			n = len(text)
		} else if text[n] == '"' {
			n += stringLen(text[n:])
		} else if v, size := vectorAt(text[n:], r.keep); size > 0 {
			if len(r.vectors) == maxValues {
				return fmt.Errorf("%w: over %d vectors", ErrProtocol, maxValues)
			}
			r.text = append(append(r.text, text[:n]...), '[')
			r.text = append(strconv.AppendInt(r.text, int64(len(r.vectors)), 10), ']')
			r.vectors = append(r.vectors, v)
			text = text[n+size:]
			continue
		} else {
			n++
		}
		r.text = append(r.text, text[:n]...)
		text = text[n:]
	}
	return nil
}

// stringLen returns the length of the JSON string that text starts with.
func stringLen(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// vectorAt measures the array of numbers that text starts with; size is its
// length in bytes, 0 if text starts with something else.
func vectorAt(text []byte, keep bool) (v vector, size int) {
	text = text[1:]
	start := 0
	for i, c := range text {
		switch {
		case '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E':
		case c == ' ' || c == '\n' || c == '\r' || c == '\t':
		case c == ',' || c == ']':
			f, err := strconv.ParseFloat(string(bytes.TrimSpace(text[start:i])), 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range is infinite
				return vector{}, 0
			}
			v.add(f, keep)
			if c == ']' {
				return v, i + len("[]")
			}
			start = i + 1
		default:
			return vector{}, 0
		}
	}
	return vector{}, 0
}

// measured returns the vector of a value of the replaced text: the place of an
// array of numbers, or a text of little-endian 32-bit floats in base64.
func (r *vectorReader) measured(v *fastjson.Value) (vector, bool) {
	if text := v.GetStringBytes(); text != nil {
		return r.base64(text)
	}
	place := count(v.Get("0"))
	if place == Unknown || len(v.GetArray()) != 1 || place >= len(r.vectors) {
		return vector{}, false
	}
	return r.vectors[place], true
}

func (r *vectorReader) base64(text []byte) (vector, bool) {
	decoded, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(decoded) == 0 || len(decoded)%4 != 0 {
		return vector{}, false
	}
	v := vector{}
	for ; len(decoded) > 0; decoded = decoded[4:] {
		v.add(float64(math.Float32frombits(binary.LittleEndian.Uint32(decoded))), r.keep)
	}
	return v, true
}

// maxKeptNumbers is how many numbers of a reply are kept: 32 vectors of 8,192.
const maxKeptNumbers = 262_144

// ValueDecoder is the Decoder of a protocol that embeds or ranks. The numbers of a
// reply are measured and forgotten unless it is asked to keep them.
type ValueDecoder interface {
	Decoder
	// KeepValues has the decoder keep the numbers of the frames that follow, as Delta.Values.
	KeepValues()
}

// inOrder returns what items hold in the order of the inputs: that of their indexes or, where no item has an index and
// none needs one, that of the items; nil where the indexes are no permutation.
func inOrder[T any](held []T, items []*fastjson.Value, indexed bool) []T {
	if len(held) == 0 || len(held) != len(items) {
		return nil
	}
	for _, item := range items {
		indexed = indexed || item.Get("index") != nil
	}
	if !indexed {
		return held
	}
	ordered, seen := make([]T, len(held)), make([]bool, len(held))
	for i, item := range items {
		place := count(item.Get("index"))
		if place == Unknown || place >= len(held) || seen[place] {
			return nil
		}
		ordered[place], seen[place] = held[i], true
	}
	return ordered
}

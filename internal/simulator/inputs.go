package simulator

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// dimensions is the length of the simulated model's vectors.
const dimensions = 64

// inputs are texts to embed, or to rank by a query.
type inputs struct {
	texts  [][]token
	query  []token // read beside each text
	base64 bool    // the vectors are wanted in base64
}

// newInputs tokenizes the texts of a request.
func newInputs(query string, texts []string) (*inputs, error) {
	if len(texts) == 0 {
		return nil, badRequest("there is no input")
	}
	in := inputs{query: tokenize(nil, query)}
	for _, text := range texts {
		tokens := tokenize(nil, text)
		if len(tokens) == 0 {
			return nil, badRequest("an input is empty")
		}
		in.texts = append(in.texts, tokens)
	}
	return &in, nil
}

// tokens is how many tokens the model reads.
func (in *inputs) tokens() int {
	n := 0
	for _, text := range in.texts {
		n += len(in.query) + len(text)
	}
	return n
}

// answerInputs answers a request about inputs. Nothing is generated, so that
// it takes the time of its prefill; there is no queue.
func (x *exchange) answerInputs() error {
	in, o := x.ask.inputs, &x.s.o
	for _, text := range in.texts {
		if n := len(in.query) + len(text); n > o.ContextLength {
			return x.refuse(badRequest(fmt.Sprintf("the model's context length is %d tokens, but an input has %d", o.ContextLength, n)))
		}
	}
	n := in.tokens()
	took := time.Duration(float64(n) / o.PrefillTokensPerSecond * float64(time.Second))
	x.rec.update(func(r *Record) { r.PromptTokens = n })
	if err := sleep(x.ctx(), took); err != nil {
		return err
	}
	if err := x.s.gate.pass(x.ctx()); err != nil {
		return err
	}
	x.rec.update(func(r *Record) { r.Prefill = took })
	w := whole{inputs: in, took: took, finish: finishStop, usage: usage{prompt: n, cached: -1, reasoning: -1}}
	if x.p.header != nil {
		x.p.header(x.w.Header(), &w)
	}
	body := x.reply.appendWhole(nil, &w)
	return x.streamReply(func(out sink) error {
		for _, e := range []event{{kind: open}, {kind: Answer, verbatim: string(body)}, {kind: end}} {
			if err := out(&e); err != nil {
				return err
			}
		}
		return nil
	})
}

// inputReply is a reply about inputs: one body, which is streamed only in the
// sense that faults may act on it.
type inputReply struct {
	h    replyHeader
	body func(h replyHeader, w *whole) any
}

// appendEvent writes an error as the body.
func (r *inputReply) appendEvent(dst []byte, e *event, _ frameFunc) []byte {
	if e.kind == Failure {
		return append(dst, openaiFailure(refusal{500, "InternalServerError", string(e.text)})...)
	}
	return dst
}

func (r *inputReply) appendWhole(dst []byte, w *whole) []byte {
	if w.inputs == nil {
		w.inputs = new(inputs)
	}
	body, err := json.Marshal(r.body(r.h, w))
	if err != nil {
		panic(err) // cannot happen: numbers and texts
	}
	return append(dst, body...)
}

// aboutInputs returns a protocol whose replies are about inputs.
func aboutInputs(path string, parse func([]byte) (ask, error), body func(replyHeader, *whole) any) protocol {
	return protocol{
		path:        path,
		parse:       parse,
		reply:       func(h replyHeader) reply { return &inputReply{h, body} },
		failure:     openaiFailure,
		contentType: "application/json",
		frame:       func(dst []byte, _ string, payload []byte) []byte { return append(dst, payload...) },
	}
}

// vectors returns the embeddings of the texts.
func (in *inputs) vectors() [][]float32 {
	vectors := make([][]float32, len(in.texts))
	for i, text := range in.texts {
		vectors[i] = unitVector(text)
	}
	return vectors
}

// unitVector returns a vector of norm 1 that depends on the tokens alone.
func unitVector(tokens []token) []float32 {
	h := fnv.New64a()
	for _, t := range tokens {
		_, _ = fmt.Fprintf(h, "%x ", t) // never fails
	}
	rng := rand.New(rand.NewPCG(h.Sum64(), 0))
	var wide [dimensions]float64
	sum := 0.0
	for i := range wide {
		wide[i] = rng.NormFloat64()
		sum += wide[i] * wide[i]
	}
	v := make([]float32, dimensions)
	for i := range v {
		v[i] = float32(wide[i] / math.Sqrt(sum))
	}
	return v
}

// score is the relevance of one text.
type score struct {
	index int
	value float64
}

// scores ranks the texts by how much of each is in the query, the best first.
func (in *inputs) scores() []score {
	scores := make([]score, len(in.texts))
	for i, text := range in.texts {
		found := 0
		for _, t := range text {
			if slices.Contains(in.query, t) {
				found++
			}
		}
		scores[i] = score{i, float64(found) / float64(len(text))}
	}
	slices.SortStableFunc(scores, func(a, b score) int {
		switch {
		case a.value > b.value:
			return -1
		case a.value < b.value:
			return 1
		}
		return 0
	})
	return scores
}

// teiHeader tells the times of a reply in milliseconds.
func teiHeader(h http.Header, w *whole) {
	ms := fmt.Sprint(w.took.Milliseconds())
	h.Set("X-Compute-Type", "cpu")
	h.Set("X-Compute-Time", ms)
	h.Set("X-Total-Time", ms)
	h.Set("X-Tokenization-Time", "0")
	h.Set("X-Queue-Time", "0")
	h.Set("X-Inference-Time", ms)
	h.Set("X-Compute-Tokens", fmt.Sprint(w.usage.prompt))
}

// teiFailure is the error of TEI's own paths.
func teiFailure(r refusal) []byte {
	kind := "backend"
	switch r.status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		kind = "validation"
	case http.StatusTooManyRequests:
		kind = "overloaded"
	case http.StatusServiceUnavailable:
		kind = "unhealthy"
	}
	return []byte(`{"error":` + quote(r.message) + `,"error_type":` + quote(kind) + `}`)
}

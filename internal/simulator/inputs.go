package simulator

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// dimensions is the length of the simulated model's vectors.
const dimensions = 64

// inputs are texts to embed, or to rank by a query.
type inputs struct {
	texts  [][]token
	query  []token // read beside each text
	base64 bool    // the vectors are wanted in base64
	// version is that of the weights; "" is none.
	version string
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
	in, o := x.request.inputs, &x.s.o
	for _, text := range in.texts {
		if n := len(in.query) + len(text); n > o.ContextLength {
			return x.refuse(badRequest(fmt.Sprintf("the model's context length is %d tokens, but an input has %d", o.ContextLength, n)))
		}
	}
	in.version = x.weights.version
	if x.s.isQuantized() {
		in.version += "-quantized"
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
		return emit(out, event{kind: open}, event{kind: Answer, verbatim: string(body)}, event{kind: end})
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
func aboutInputs(path string, parse func([]byte) (request, error), body func(replyHeader, *whole) any) protocol {
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
		vectors[i] = unitVector(text, in.version)
	}
	return vectors
}

// versionPart is how much of a vector or of a score is the version's alone. Those of
// two versions then have a cosine of about 0.96.
const versionPart = 0.2

// unitVector returns a vector of norm 1 that depends on the tokens and the version
// alone.
func unitVector(tokens []token, version string) []float32 {
	seed := hashTokens(tokens)
	rng := rand.New(rand.NewPCG(seed, 0))
	var wide [dimensions]float64
	for i := range wide {
		wide[i] = rng.NormFloat64()
	}
	sum := 0.0
	own := rand.New(rand.NewPCG(seed, hashText("vector", version)))
	for i := range wide {
		if version != "" {
			wide[i] += versionPart * own.NormFloat64()
		}
		sum += wide[i] * wide[i]
	}
	v := make([]float32, dimensions)
	for i := range v {
		v[i] = float32(wide[i] / math.Sqrt(sum))
	}
	return v
}

// hashTokens returns a number that depends on the tokens.
func hashTokens(tokens []token) uint64 {
	h := fnv.New64a()
	for _, t := range tokens {
		_, _ = fmt.Fprintf(h, "%x ", t) // never fails
	}
	return h.Sum64()
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
		if in.version != "" {
			own := rand.New(rand.NewPCG(hashTokens(text), hashText("score", in.version)))
			scores[i].value += versionPart * own.Float64()
		}
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

// teiHeader reports the times of a reply in milliseconds.
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
func parseEmbedding(pick func(embeddingRequest) textList) func([]byte) (request, error) {
	return func(body []byte) (request, error) {
		var q embeddingRequest
		if err := json.Unmarshal(body, &q); err != nil {
			return request{}, badRequest("body is not a valid request: " + err.Error())
		}
		in, err := newInputs("", pick(q))
		if err != nil {
			return request{}, err
		}
		in.base64 = q.EncodingFormat == "base64"
		return request{model: q.Model, inputs: in}, nil
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

// ollamaEmbed is Ollama's POST /api/embed, which reports its times in
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

// teiRerank is TEI's POST /rerank: texts in, a bare list of scores out.
func teiRerank() protocol {
	parse := func(body []byte) (request, error) {
		var q struct {
			Query string   `json:"query"`
			Texts []string `json:"texts"`
		}
		if err := json.Unmarshal(body, &q); err != nil {
			return request{}, badRequest("body is not a valid request: " + err.Error())
		}
		in, err := newInputs(q.Query, q.Texts)
		return request{inputs: in}, err
	}
	p := aboutInputs("/rerank", parse, func(_ replyHeader, w *whole) any {
		list := []jsonMap{}
		for _, s := range w.inputs.scores() {
			list = append(list, jsonMap{"index": s.index, "score": s.value})
		}
		return list
	})
	p.header, p.failure = teiHeader, teiFailure
	return p
}

// rerankV1 is POST /v1/rerank as Jina, vLLM and llama.cpp have it.
func rerankV1() protocol {
	return aboutInputs("/v1/rerank", parseRerank, func(h replyHeader, w *whole) any {
		return jsonMap{
			"id": "rerank-" + h.id, "model": h.model, "results": rerankResults(w),
			"usage": jsonMap{"prompt_tokens": w.usage.prompt, "total_tokens": w.usage.prompt},
		}
	})
}

// cohereRerank is Cohere's POST /v2/rerank, which bills searches, not tokens.
func cohereRerank() protocol {
	p := aboutInputs("/v2/rerank", parseRerank, func(h replyHeader, w *whole) any {
		return jsonMap{
			"id": h.id, "results": rerankResults(w),
			"meta": jsonMap{"api_version": jsonMap{"version": "2"}, "billed_units": jsonMap{"search_units": 1}},
		}
	})
	p.failure = func(r refusal) []byte { return []byte(`{"message":` + quote(r.message) + `}`) }
	return p
}

// parseRerank reads a request of the services, which refuse what they do not
// know.
func parseRerank(body []byte) (request, error) {
	var q struct {
		Model     string   `json:"model"`
		Query     string   `json:"query"`
		Documents []string `json:"documents"`
		TopN      int      `json:"top_n"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return request{}, badRequest(strings.TrimPrefix(err.Error(), "json: "))
	}
	in, err := newInputs(q.Query, q.Documents)
	return request{model: q.Model, inputs: in}, err
}

func rerankResults(w *whole) []jsonMap {
	list := []jsonMap{}
	for _, s := range w.inputs.scores() {
		list = append(list, jsonMap{"index": s.index, "relevance_score": s.value})
	}
	return list
}

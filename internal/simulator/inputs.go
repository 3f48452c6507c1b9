package simulator

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/valyala/fastjson"
)

// dimensions is the length of the simulated model's vectors.
const dimensions = 64

// inputs are texts to embed, or to rank by a query.
type inputs struct {
	Encoding string // of the vectors: float or base64
	texts    [][]token
	query    []token // read beside each text
	version  string  // that of the weights; "" is none
}

// parseInputs reads a request about texts.
func (q *reading) parseInputs(v *fastjson.Value) (*inputs, error) {
	list := at(v, q.Texts)
	if list == nil {
		return nil, badRequest("there is no input")
	}
	texts, ok := textsOf(list)
	if !ok || len(texts) == 0 {
		return nil, badRequest("there is no input")
	}
	in := inputs{Encoding: string(v.GetStringBytes("encoding_format")), query: tokenize(nil, string(at(v, q.Query).GetStringBytes()))}
	for _, text := range texts {
		tokens := tokenize(nil, text)
		if len(tokens) == 0 {
			return nil, badRequest("an input is empty")
		}
		in.texts = append(in.texts, tokens)
	}
	return &in, nil
}

// answerInputs answers a request about inputs. Nothing is generated, so that
// it takes the time of its prefill; there is no queue.
func (x *exchange) answerInputs() error {
	in, o := x.request.inputs, &x.s.o
	n := 0 // what the model reads
	for _, text := range in.texts {
		one := len(in.query) + len(text)
		if n += one; one > o.ContextLength {
			return x.refuse(badRequest("the model's context length is %d tokens, but an input has %d", o.ContextLength, one))
		}
	}
	in.version = x.weights.version
	if x.s.isQuantized() {
		in.version += "-quantized"
	}
	took := time.Duration(float64(n) / o.PrefillTokensPerSecond * float64(time.Second))
	x.rec.update(func(r *Record) { r.PromptTokens = n })
	if err := sleep(x.ctx(), took); err != nil {
		return err
	}
	if err := x.s.gate.pass(x.ctx()); err != nil {
		return err
	}
	x.rec.update(func(r *Record) { r.Prefill = took })
	body := x.reply.appendWhole(nil, &whole{inputs: in, took: took, usage: usage{Prompt: n}})
	if r, ok := x.reply.(*templatedReply); ok {
		r.setHeader(x.w.Header())
	}
	return x.streamReply(func(out sink) error { // so that faults may act on it
		return emit(out, event{kind: open}, event{kind: Answer, verbatim: string(body)}, event{kind: end})
	})
}

// versionPart is how much of a vector or of a score is the version's alone. Those of
// two versions then have a cosine of about 0.96.
const versionPart = 0.2

// Vectors returns the embeddings of the texts: of norm 1, each decided by its
// tokens and the version alone.
func (in *inputs) Vectors() [][]float32 {
	vectors := make([][]float32, len(in.texts))
	for n, tokens := range in.texts {
		seed := hashTokens(tokens)
		rng, own := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, hashText("vector", in.version)))
		var wide [dimensions]float64
		sum := 0.0
		for i := range wide {
			wide[i] = rng.NormFloat64()
			if in.version != "" {
				wide[i] += versionPart * own.NormFloat64()
			}
			sum += wide[i] * wide[i]
		}
		for _, v := range wide {
			vectors[n] = append(vectors[n], float32(v/math.Sqrt(sum)))
		}
	}
	return vectors
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
	Index int
	Value float64
}

// Scores ranks the texts by how much of each is in the query, the best first.
func (in *inputs) Scores() []score {
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
			scores[i].Value += versionPart * own.Float64()
		}
	}
	slices.SortStableFunc(scores, func(a, b score) int { return cmp.Compare(b.Value, a.Value) })
	return scores
}

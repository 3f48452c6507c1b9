package simulator

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// request is what a client wants, in the words of all protocols.
type request struct {
	model           string // empty is the one served
	text            string // the prompt, of a conversation the last message
	prompt          []token
	maxOutput       int // 0 is not given
	minOutput       int
	ignoreEOS       bool // do not end before maxOutput
	sampled         bool // temperature above 0: another answer each time
	reasoning       bool // may reason
	stream          bool
	usage           bool    // usage at the end of the stream
	continuousUsage bool    // and in every event
	inputs          *inputs // if set, nothing is generated
	logprobs        bool    // those of the output, in a reply that is not streamed
	echo            bool    // and those of the prompt
	scoreFrom       int     // the token of the prompt that they begin with
	top             int     // how many of the likeliest first tokens to stream; 0 is none

	form   *form          // what the answer is to be; nil is text
	spoilt result.Verdict // what the form is worth; "" is what the model makes of it
}

type refusal struct {
	status  int
	kind    string
	message string
}

func (r refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.status, r.kind, r.message) }

func badRequest(format string, args ...any) refusal {
	return refusal{http.StatusBadRequest, "BadRequestError", fmt.Sprintf(format, args...)}
}

type event struct {
	kind   Kind
	text   []byte // what Reasoning, Answer and Call carry
	name   string // of the function, with the first Call
	tokens int    // how many tokens text is
	finish finish // with the last token, or alone
	usage  *usage // with Usage, or beside other things
	// payload, if set, replaces what the protocol would write; verbatim, if set, replaces the framing too.
	payload, verbatim string
	top               []tokenScore // the likeliest tokens in the place of this one, where they are wanted
}

// usage are token counts; negative ones are not given.
type usage struct {
	Prompt, Output, Cached, Reasoning int
	Times                             serverTimes
}

// Total is prompt and output.
func (u usage) Total() int { return u.Prompt + u.Output }

// serverTimes are the server's own account of a request up to now.
type serverTimes struct{ Queue, Prefill, Decode time.Duration }

// Total is the sum.
func (t serverTimes) Total() time.Duration { return t.Queue + t.Prefill + t.Decode }

// reading says where a protocol has what it asks for: paths of members, with dots
// between. A switch is on where its path has something else than null and false; "always"
// is on, and one with a question mark also where there is nothing.
type reading struct {
	Model  string
	Prompt []string // has the first path that is there: a text, or messages
	Chat   bool     // puts a chat template around the prompt; the model then may reason
	// Limit bounds the output, else Fallback; 0 is none, and so is a negative limit. Least is the least output.
	Limit              []string
	Fallback           int
	Least, Temperature string
	Silent             map[string]string // the values that switch reasoning off
	// From is the first token of a prompt that is scored, Top how many of the likeliest first tokens to stream. Texts
	// are to be embedded, or ranked by Query.
	From, Top, Texts, Query string
	// Tool is a function that may be called, Parameters where under it its schema is, Schema that of an answer in JSON,
	// which may be a text.
	Tool, Parameters, Schema string
	// The switches: stream, report the usage at the end, in each event, draw the answer where no temperature is given
	// (without a path: yes), return the log-probabilities of the output, and of the prompt, go on to the limit.
	Stream, Usage, Counting, Sample, Logprobs, Echo string
	IgnoreEOS                                       string `yaml:"ignore_eos"`
}

// at returns what is at the first path that has something; nil is nothing.
func at(v *fastjson.Value, paths ...string) *fastjson.Value {
	for _, path := range paths {
		if found := v.Get(strings.Split(path, ".")...); found != nil {
			return found
		}
	}
	return nil
}

func isOn(v *fastjson.Value, path string) bool {
	path, unasked := strings.CutSuffix(path, "?")
	value := at(v, path)
	if path == "always" || value == nil {
		return path == "always" || unasked
	}
	return value.Type() != fastjson.TypeNull && value.Type() != fastjson.TypeFalse
}

// textsOf returns the texts under a value: itself, those of a list, or those of a message or a part of one. There may be
// others, such as images.
func textsOf(v *fastjson.Value) (texts []string) {
	if v == nil {
		return nil
	}
	switch v.Type() {
	case fastjson.TypeString:
		return []string{string(v.GetStringBytes())}
	case fastjson.TypeArray:
		for _, item := range v.GetArray() {
			texts = append(texts, textsOf(item)...)
		}
	case fastjson.TypeObject:
		return textsOf(at(v, "content", "parts", "text"))
	}
	return texts
}

func (q *reading) parse(body []byte) (request, error) {
	v, err := fastjson.ParseBytes(body)
	if err != nil {
		return request{}, badRequest("body is not a valid request: %v", err)
	}
	a := request{
		model: string(at(v, q.Model).GetStringBytes()), minOutput: at(v, q.Least).GetInt(), ignoreEOS: isOn(v, q.IgnoreEOS),
		stream: isOn(v, q.Stream), usage: isOn(v, q.Usage), continuousUsage: isOn(v, q.Counting),
		reasoning: q.Chat, sampled: q.Sample == "" || isOn(v, q.Sample),
	}
	if q.Texts != "" {
		a.inputs, err = q.parseInputs(v)
		return a, err
	}
	a.form = q.formOf(v)
	if t := at(v, q.Temperature); t != nil {
		a.sampled = t.GetFloat64() > 0
	}
	for path, value := range q.Silent {
		if is := at(v, path); is != nil && strings.Trim(is.String(), `"`) == value {
			a.reasoning = false
		}
	}
	if err := q.parsePrompt(&a, v); err != nil {
		return a, err
	}
	if err := q.parseLimit(&a, v); err != nil {
		return a, err
	}
	a.echo, a.scoreFrom, a.logprobs = isOn(v, q.Echo), max(0, at(v, q.From).GetInt()), isOn(v, q.Logprobs)
	switch {
	case a.stream && a.echo:
		return a, badRequest("a prompt is not scored with stream")
	case a.echo && !a.logprobs:
		return a, badRequest("echo is only simulated with logprobs")
	case a.stream:
		a.top = at(v, q.Top).GetInt()
	}
	return a, nil
}

func (q *reading) parsePrompt(a *request, v *fastjson.Value) error {
	texts := textsOf(at(v, q.Prompt...))
	for _, text := range texts {
		a.text, a.prompt = text, tokenize(a.prompt, text)
	}
	if len(texts) == 0 || len(a.prompt) == 0 && !q.Chat {
		return badRequest("the prompt must not be empty")
	}
	if q.Chat {
		a.prompt = inTemplate(a.prompt)
	}
	return nil
}

func (q *reading) parseLimit(a *request, v *fastjson.Value) error {
	limit := at(v, q.Limit...)
	switch a.maxOutput = limit.GetInt(); {
	case limit != nil && a.maxOutput == 0:
		return badRequest("the limit on the output must be at least 1, got %s", limit)
	case a.maxOutput <= 0 && q.Fallback > 0:
		a.maxOutput = max(q.Fallback, a.minOutput)
	}
	a.maxOutput = max(0, a.maxOutput)
	if a.minOutput < 0 || a.maxOutput > 0 && a.minOutput > a.maxOutput {
		return badRequest("the least output must be from 0 to the limit")
	}
	if v.Get("stream_options") != nil && !a.stream {
		return badRequest("stream_options need stream to be true")
	}
	return nil
}

const dimensions = 64 // of the simulated model's vectors

// inputs are texts to embed, or to rank by a query.
type inputs struct {
	Encoding string // of the vectors: float or base64
	texts    [][]token
	query    []token // read beside each text
	version  string  // that of the weights; "" is none
}

func (q *reading) parseInputs(v *fastjson.Value) (*inputs, error) {
	texts := textsOf(at(v, q.Texts))
	if len(texts) == 0 {
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

// answerInputs answers a request about inputs. It takes the time of its prefill; there is no queue.
func (x *exchange) answerInputs() error {
	in, o := x.request.inputs, &x.s.o
	n := 0 // what the model reads
	for _, text := range in.texts {
		one := len(in.query) + len(text)
		if n += one; one > o.ContextLength {
			return badRequest("the model's context length is %d tokens, but an input has %d", o.ContextLength, one)
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
	x.reply.Inputs, x.reply.Took = *in, took
	body := x.reply.whole(usage{Prompt: n})
	x.reply.setHeader(x.w.Header())
	return x.streamReply(func(out sink) error { // so that faults may act on it
		return emit(out, event{kind: open}, event{kind: Answer, verbatim: string(body)}, event{kind: end})
	})
}

// versionPart is how much of a vector or of a score is the version's alone, 0 without a version. Those of two versions
// then have a cosine of about 0.96.
func (in *inputs) versionPart() float64 {
	if in.version == "" {
		return 0
	}
	return 0.2
}

// Vectors returns the embeddings of the texts: of norm 1, each decided by its tokens and the version alone.
func (in *inputs) Vectors() [][]float32 {
	vectors := make([][]float32, len(in.texts))
	for n, tokens := range in.texts {
		seed := fold(0, tokens)
		rng, own := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, hashText("vector", in.version)))
		var wide [dimensions]float64
		sum := 0.0
		for i := range wide {
			wide[i] = rng.NormFloat64() + in.versionPart()*own.NormFloat64()
			sum += wide[i] * wide[i]
		}
		for _, v := range wide {
			vectors[n] = append(vectors[n], float32(v/math.Sqrt(sum)))
		}
	}
	return vectors
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
		found := stats.Count(text, func(t token) bool { return slices.Contains(in.query, t) })
		own := rand.New(rand.NewPCG(fold(0, text), hashText("score", in.version)))
		scores[i] = score{i, float64(found)/float64(len(text)) + in.versionPart()*own.Float64()}
	}
	slices.SortStableFunc(scores, func(a, b score) int { return cmp.Compare(b.Value, a.Value) })
	return scores
}

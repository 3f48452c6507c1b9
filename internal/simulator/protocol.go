package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/inference-exporter/inference_exporter/prober/check"
)

// protocol is one wire protocol: it reads a request and writes a reply, and
// knows nothing of time.
type protocol struct {
	path string
	// engine, if set, is the only server software with this face, which there
	// goes before others of its path.
	engine string
	parse  func(body []byte) (request, error)
	// address, if set, adds to the request what the path holds.
	address func(r *http.Request, a *request) error
	// reply returns the writer of one reply.
	reply func(h replyHeader) reply
	// header, if set, adds to the header of a reply about inputs.
	header func(h http.Header, w *whole)
	// failure returns the body of an error answer.
	failure func(refusal) []byte
	// contentType and frame are how a reply is streamed. Without a contentType
	// that is server-sent events, which faults may frame otherwise.
	contentType string
	frame       frameFunc
}

// protocols lists what the server speaks.
func protocols() []protocol {
	return []protocol{
		openaiChat(), openaiCompletions(), openaiResponses(),
		anthropicMessages(),
		geminiGenerate(),
		cohereChat(),
		ollamaChat(), ollamaGenerate(), tgiStream(), sglangGenerate(), tgiGenerate(), llamacppCompletion(), tritonStream(),
		bedrockConverse(),
		openaiEmbeddings(), teiEmbed(), ollamaEmbed(), cohereEmbed(), teiRerank(), rerankV1(), cohereRerank(),
	}
}

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

	form   *form         // what the answer is to be; nil is text
	spoilt check.Verdict // what the form is worth; "" is what the model makes of it
}

// refusal is an error answer; parse returns one for a bad request.
type refusal struct {
	status  int
	kind    string
	message string
}

func (r refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.status, r.kind, r.message) }

// replyHeader is what all parts of a reply have in common.
type replyHeader struct {
	id      string // 32 hex digits
	model   string
	created int64 // Unix seconds
	// fingerprint is the system_fingerprint; "" is none.
	fingerprint string
}

// reply writes the parts of one reply.
type reply interface {
	// appendEvent appends what one event of a stream is on the wire: one payload
	// in its frame, or several; nothing, if the protocol has no such event.
	appendEvent(dst []byte, e *event, frame frameFunc) []byte
	// appendWhole appends the body of a reply that is not streamed.
	appendWhole(dst []byte, w *whole) []byte
}

// event is one event of a stream.
type event struct {
	kind   Kind
	text   []byte // what Reasoning, Answer and Call carry
	name   string // of the function, with the first Call
	tokens int    // how many tokens text is
	finish finish // with the last token, or alone
	usage  *usage // with Usage, or beside other things
	// payload, if set, replaces what the protocol would write; verbatim, if
	// set, replaces the framing too.
	payload, verbatim string
	// top are the likeliest tokens in the place of this one, where they are wanted.
	top []tokenScore
}

// usage are token counts.
type usage struct {
	prompt, output    int
	cached, reasoning int // negative is not given
	times             serverTimes
}

// serverTimes are the server's own account of a request up to now.
type serverTimes struct{ queue, prefill, decode time.Duration }

// whole is a reply that is not streamed.
type whole struct {
	reasoning, answer []byte
	finish            finish
	usage             usage
	scores            *scores       // the log-probabilities; nil are not wanted
	inputs            *inputs       // what the reply is about; nil is an answer
	took              time.Duration // of the prefill of inputs
}

// conversation is what the requests of chat protocols have in common, beyond
// their spelling.
type conversation struct {
	model       string
	contents    []string
	limit       *int // nil is not given
	stream      bool
	temperature *float64
	noReasoning bool
}

// request returns the request in the words of all protocols; these protocols report
// the usage unasked.
func (c conversation) request() (request, error) {
	if len(c.contents) == 0 {
		return request{}, badRequest("there is no message")
	}
	a := request{
		model: c.model, text: c.contents[len(c.contents)-1], prompt: chatTokens(c.contents), stream: c.stream, usage: true,
		sampled: c.temperature == nil || *c.temperature > 0, reasoning: !c.noReasoning,
	}
	if c.limit != nil {
		if a.maxOutput = *c.limit; a.maxOutput < 1 {
			return request{}, badRequest("the limit on the output must be at least 1, got " + strconv.Itoa(*c.limit))
		}
	}
	return a, nil
}

// messagesRequest is what the requests of Anthropic and Cohere spell alike.
type messagesRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Content openaiContent `json:"content"`
	} `json:"messages"`
	MaxTokens   *int     `json:"max_tokens"`
	Temperature *float64 `json:"temperature"`
	Stream      bool     `json:"stream"`
	Thinking    struct {
		Type string `json:"type"`
	} `json:"thinking"`
}

func (q *messagesRequest) request() (request, error) {
	c := conversation{
		model: q.Model, limit: q.MaxTokens, stream: q.Stream,
		temperature: q.Temperature, noReasoning: q.Thinking.Type == "disabled",
	}
	for _, m := range q.Messages {
		c.contents = append(c.contents, string(m.Content))
	}
	return c.request()
}

// contentBlock is the part of a reply, of one kind of material, that is written
// at the moment.
type contentBlock struct {
	kind  Kind // Role is none
	index int  // of the open block, or the next
}

// close ends the open block, if there is one, and returns its index.
func (b *contentBlock) close() (index int, ok bool) {
	if b.kind == Role {
		return 0, false
	}
	b.kind = Role
	b.index++
	return b.index - 1, true
}

// ending is the end of a reply in protocols that report the finish reason and the
// usage in one event.
type ending struct {
	finish  finish
	usage   usage
	counted bool // usage is known
	written bool // the end is written
}

// take notes what an event holds of the end, and returns whether to write it
// now: with the usage, or in its absence with the end marker.
func (n *ending) take(e *event) (due bool) {
	if n.finish == "" {
		n.finish = e.finish
	}
	if e.usage != nil && e.kind != Role {
		n.usage, n.counted = *e.usage, true
	}
	due = !n.written && (e.kind == Usage || e.kind == Done)
	n.written = n.written || due || e.kind == Failure
	return due
}

// appendTyped appends an event whose name is in its frame and in its member
// type. members are what follows in its object, with the commas before them.
func appendTyped(dst []byte, frame frameFunc, name, members string) []byte {
	return frame(dst, name, []byte(`{"type":"`+name+`"`+members+`}`))
}

// quote returns a text in JSON.
func quote[T ~string | ~[]byte](text T) string {
	b, err := json.Marshal(string(text))
	if err != nil {
		panic(err) // cannot happen: a string
	}
	return string(b)
}

// appendText appends a text inside of a string in JSON. What is no control
// character stays as it is, valid or not.
func appendText[T ~string | ~[]byte](dst []byte, text T) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// native is what the requests of the engines' own protocols have in common,
// beyond their spelling: a prompt without a template.
type native struct {
	prompt         string
	limit          *int // nil is fallback
	fallback       int  // 0 is none
	minimum        int
	ignoreEOS      bool
	temperature    *float64
	sampledUnasked bool // without a temperature the answer is sampled
	stream         bool
}

// request returns the request in the words of all protocols; these protocols count
// along.
func (n native) request() (request, error) {
	a := request{
		text: n.prompt, prompt: tokenize(nil, n.prompt), maxOutput: n.fallback, minOutput: n.minimum, ignoreEOS: n.ignoreEOS,
		sampled: n.sampledUnasked, stream: n.stream, continuousUsage: true,
	}
	if n.limit != nil {
		a.maxOutput = *n.limit
	}
	if n.temperature != nil {
		a.sampled = *n.temperature > 0
	}
	switch {
	case len(a.prompt) == 0:
		return request{}, badRequest("the prompt must not be empty")
	case n.limit != nil && *n.limit < 1:
		return request{}, badRequest("the limit on the output must be at least 1, got " + strconv.Itoa(*n.limit))
	case a.minOutput < 0 || a.maxOutput > 0 && a.minOutput > a.maxOutput:
		return request{}, badRequest("the least output must be from 0 to the limit")
	}
	return a, nil
}

// material gathers what a reply in the engines' own protocols has said so far.
type material struct {
	text   []byte
	usage  usage
	tokens int
}

// take notes what an event adds.
func (m *material) take(e *event) {
	m.text = append(m.text, e.text...)
	m.tokens += e.tokens
	if e.usage == nil {
		return
	}
	cached := m.usage.cached
	if m.usage = *e.usage; m.usage.cached < 0 {
		m.usage.cached = cached // known with the role, before the first token
	}
}

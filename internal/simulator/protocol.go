package simulator

import (
	"fmt"
	"net/http"
	"time"
)

// protocol is one wire protocol: it reads a request and writes a reply, and
// knows nothing of time.
type protocol struct {
	path string
	// engine, if set, is the only server software with this face, which there
	// goes before others of its path.
	engine string
	parse  func(body []byte) (ask, error)
	// address, if set, adds to the ask what the request's path tells.
	address func(r *http.Request, a *ask) error
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

// ask is what a request wants, in the words of all protocols.
type ask struct {
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
	// fingerprint is what the reply tells of the weights; "" is nothing.
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
	text   []byte // what Reasoning and Answer carry
	tokens int    // how many tokens text is
	finish finish // with the last token, or alone
	usage  *usage // with Usage, or beside other things
	// payload, if set, replaces what the protocol would write; verbatim, if
	// set, replaces the framing too.
	payload, verbatim string
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

// Package api knows the wire protocols of inference endpoints: each builds a request and decodes one frame of the reply
// into a Delta. It keeps no time and opens no connection.
package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// Unknown is a count that the server did not report, which is not 0.
const Unknown = -1

// ErrProtocol is a reply, or a frame of one, that the protocol does not know.
var ErrProtocol = errors.New("protocol error")

// Kind is what an endpoint does with a request.
type Kind string

// The kinds. Only Generation has tokens that come one after the other, and so TTFT, TPOT and gaps.
const (
	Generation Kind = "generation"
	Embedding  Kind = "embedding"
	Rerank     Kind = "rerank"
	Scoring    Kind = "scoring" // an endpoint that generates returns the log-probability of a given text
)

// The values of Protocol.Operation, of OpenTelemetry's conventions for generative AI but for ranking, which has none there.
const (
	OperationChat       = "chat"
	OperationCompletion = "text_completion"
	OperationContent    = "generate_content"
	OperationEmbeddings = "embeddings"
	OperationRerank     = "rerank"
)

// Message is one message of a conversation.
type Message struct {
	Role    string `json:"role"` // "system", "user" or "assistant"
	Content string `json:"content"`
}

// Params is what to ask, in the words of all protocols.
type Params struct {
	Model  string // as the server knows it
	Prompt string // the text of the one user message; for Rerank the query
	// Messages is a conversation to go on with, which ends with a message of the user; nil where Prompt is
	// all there is. Where roles must alternate, messages of one role in a row become one. A protocol
	// without roles gets the contents alone, as one text with a blank line between them.
	Messages []Message
	Inputs   []string // the texts to embed or to rank
	Path     string   // the path that the request goes to, which decides between the dialects of Rerank; "" is not known
	// OutputTokens caps the answer, reasoning included. ExactLength asks for an answer of exactly so many, for
	// servers that are known to honour it (ignore_eos and the like); others may reject the unknown parameter.
	OutputTokens int
	ExactLength  bool
	// ContinuousUsage asks for a running token count in every event, for servers that are known to honour it.
	ContinuousUsage bool
	// TopLogprobs is how many of the likeliest tokens, with their log-probabilities, to ask for beside each
	// token of the answer, where the protocol can ask for that; 0 is none.
	TopLogprobs int
	Tool        *Tool           // a function that the model may call and need not, as is the default everywhere; nil is none
	Schema      json.RawMessage // the JSON schema that the answer is to follow; nil is none
}

// Tool is a function that the model may call.
type Tool struct {
	// Name is the name to call it by, Description what it is for.
	Name, Description string
	Parameters        json.RawMessage // the JSON schema of its arguments
}

// CallPiece is what one frame adds to a call of a function.
type CallPiece struct {
	// Index tells the calls of a reply apart.
	Index int
	// Name is the name of the function, or a part of it; Arguments is what the frame
	// adds to the text of the arguments. Either may be empty.
	Name, Arguments []byte
}

// exactly returns the length that the answer is to have; 0 is any up to the cap.
func (p *Params) exactly() int {
	if !p.ExactLength {
		return 0
	}
	return p.OutputTokens
}

// Protocol is one wire protocol.
type Protocol struct {
	// Name is the value of the configuration key api, and Kind what the protocol's endpoints do.
	Name string
	Kind Kind
	// Engine is the one engine that speaks the protocol, "" where several do; Hosted means that only hosted
	// services do, which have no metrics page.
	Engine    string
	Hosted    bool
	Operation string // gen_ai.operation.name of OpenTelemetry
	// ExactLength means that Params.ExactLength is honoured by every server of the
	// protocol; else Engine.ExactLength says it.
	ExactLength bool
	// Framing cuts a good reply into the frames that Decoder takes.
	Framing stream.Framing
	// URL returns where to send the requests for a model, given the URL of the endpoint as configured.
	URL       func(base *url.URL, model string) *url.URL
	Version   string              // the version of Anthropic's protocol, which every request names; "" of others
	body      func(Params) fields // of the request
	MaxTokens string              // the key of the body that caps the answer, a nested one with dots; "" where there is none
	// NewDecoder returns a decoder for one reply.
	NewDecoder func() Decoder
	// NoEndMarker means that a good reply ends by the end of its body, after its finish reason. EndOfBody
	// means that it may end with neither a finish reason nor an end marker, by the end of its body alone.
	NoEndMarker, EndOfBody bool
	// FinishOptional means that a good reply may lack a finish reason where it has the end marker, as real servers of
	// the protocol leave it out. Otherwise a reply without a finish reason was cut, whatever else ends it.
	FinishOptional bool
	// Models says how to ask for the models; nil where the server has no list
	// that is free of charge, so that the model must be configured.
	Models *ModelList
	// ModelOptional means that requests need no model's name.
	ModelOptional bool
	// Headers reads the token counts and the server's own timing from the headers of a reply; nil means that they have none.
	Headers func(http.Header) (Usage, ServerTimes)
	scoring *textScoring // nil where the protocol has no way to score a text
	// Tools means that the protocol has Params.Tool, and Structured that it has Params.Schema.
	Tools, Structured bool
}

// ModelList says how to ask a server for its models.
type ModelList struct {
	// URL returns where to ask, given the URL of the endpoint as configured.
	URL func(base *url.URL) *url.URL
	// Parse reads the reply.
	Parse func(body []byte) ([]ModelInfo, error)
}

// Decoder decodes the frames of one reply in order. It is not safe for concurrent use.
type Decoder interface {
	// Decode reads one frame, with its SSE event name if any, into d, which it overwrites and whose slices are valid
	// until the next call. An error (ErrProtocol) is a frame of no such protocol; the server's own is Delta.Err.
	Decode(event, data []byte, d *Delta) error
}

// Delta is what one frame adds to the answer.
type Delta struct {
	// Text, Reasoning, Refusal and Tool are generated material by channel. Signatures and encrypted reasoning are
	// none: they come when a block of reasoning begins or is over, and not with its tokens.
	Text, Reasoning, Refusal, Tool []byte
	Calls                          []CallPiece // the pieces of calls of functions that Tool has, in order
	// Summary means that Reasoning is, or may be, a summary: Usage.Reasoning counts tokens that were never streamed.
	Summary bool
	// Tokens is the server's running count of the output tokens that left events, after this frame; Unknown unless every
	// token-bearing frame so far carried a count that never fell. Reasoning is part of it only where it is streamed itself,
	// so that no event seems to carry the tokens of hidden reasoning. A frame that raises it without material still carries
	// a token: one whose text is empty or held back.
	Tokens int
	Finish string // the finish reason, one of FinishReasons; "" while running
	// Usage is the token count of the reply, and Server the server's own timing; nil where the frame has none.
	Usage  *Usage
	Server *ServerTimes
	// Model is the name of the model in the reply, and Fingerprint what identifies the system behind it
	// (system_fingerprint, a version), at most 256 bytes of UTF-8 each; nil where the frame has none, or repeats that
	// of a frame before.
	Model, Fingerprint []byte
	// Top are the likeliest tokens in the place of the frame's first token, in the server's order; nil is none.
	Top []TokenLogprob
	Err *ServerError // that the server reports inside the reply
	// Vectors is what the frame of an Embedding or Rerank reply holds; nil in every other frame. Values are its numbers,
	// where they are kept: a vector for each input, or one vector with the score of each, in the order of the inputs; nil
	// where the reply has none or too many, or does not show which input each belongs to.
	Vectors  *Vectors
	Values   [][]float32
	Logprobs []float64 // of the tokens of a text that was to be scored
	Done     bool      // the frame is the protocol's end marker
}

// TokenLogprob is a token that could come next.
type TokenLogprob struct {
	Token   string  // its text, or what the server has for one that has no text
	Logprob float64 // in nats
}

// Vectors is what came back for the inputs of an Embedding or Rerank request.
type Vectors struct {
	// Items is the number of vectors or scores, Dimensions the length of each vector, 0 for scores and Unknown
	// where the vectors differ in length, and Norm their mean Euclidean norm, 0 for scores.
	Items, Dimensions int
	Norm              float64
}

// HasToken reports whether the frame carries generated material of any channel.
func (d *Delta) HasToken() bool {
	return len(d.Text)+len(d.Reasoning)+len(d.Refusal)+len(d.Tool) > 0
}

// Visible reports whether the frame carries material that a user would see.
func (d *Delta) Visible() bool {
	return len(d.Text)+len(d.Refusal)+len(d.Tool) > 0
}

// Usage are the server's own token counts; Unknown where not reported.
type Usage struct {
	// Prompt counts the prompt, Cached the part of it that came from the prefix cache.
	Prompt, Cached int
	// Output counts all generated tokens, Reasoning the part of them that is reasoning, streamed or not; 0 is
	// a server that says so, and some say so whatever the model did.
	Output, Reasoning int
}

// ServerTimes is the server's own account of one request; negative is absent.
type ServerTimes struct {
	Queue, Prefill, Decode time.Duration
}

// RateLimit is the quota left by the reply's headers; Unknown is absent.
type RateLimit struct {
	Requests, Tokens int
}

// ServerError is an error in the server's words: one line of printable UTF-8
// each, of at most 4 KiB, which may quote the request with its secrets.
type ServerError struct {
	Status  int    // the HTTP status that the error names; 0 is none
	Type    string // the server's error type; "" is none
	Param   string // the request's parameter that it blames; "" is none
	Message string
}

// Shown returns the error as it can be shown: clean returns each of its texts
// without secrets, in at most so many bytes.
func (e *ServerError) Shown(clean func(text string, limit int) string) *ServerError {
	return &ServerError{
		Status: e.Status,
		Type:   clean(e.Type, maxErrorType), Param: clean(e.Param, maxParam), Message: clean(e.Message, maxMessage),
	}
}

// Error returns the server's words.
func (e *ServerError) Error() string {
	if e.Type == "" || e.Type == e.Message {
		return e.Message
	}
	return e.Type + ": " + e.Message
}

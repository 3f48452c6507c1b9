package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Kind is what a module may ask by one key.
type Kind struct {
	Key string // that of config.Ask
	// New returns what makes the questions of a module for an endpoint.
	New      func(e *config.Endpoint, m *config.Module) (Source, error)
	Verdicts []result.Verdict // those that the answers may have where they are checked
	// Tokens returns the most tokens of a prompt, given what counts those of a text; nil of prompts made to length.
	Tokens func(m *config.Module, count func(text string) int) int
	// Texts is a workload for endpoints that embed or rank, and Answers one for those that generate.
	Texts, Answers bool
	// Scores is a workload that has a text scored instead of an answer, Calls one that asks for calls of tools.
	Scores, Calls bool
	// Has reports whether a protocol that generates can be asked, and What says what it lacks if not; nil is any.
	Has  func(p api.Protocol) bool
	What string
}

const (
	TemplateTokens = 64 // what a chat template adds to a prompt at most
	// ShortPrompt bounds built-in questions and passages, with what servers write around a tool or schema, in tokens.
	ShortPrompt = 600
)

// Short is Kind.Tokens of what is built in.
func Short(*config.Module, func(string) int) int { return ShortPrompt }

// Source makes the questions of a module, one after the other.
type Source interface {
	// Next returns the next question, of so many texts where an endpoint embeds or ranks and of one elsewhere. context
	// is how many tokens the model has room for, 0 where that is not known.
	Next(texts, context int) Question
}

// Question is what one request asks.
type Question struct {
	// Texts are the one prompt, the texts to embed or to rank, or the one to score; none where there are messages.
	Texts    []string
	Query    string        // what texts are ranked by; "" is another one
	Messages []api.Message // a conversation to go on with
	// Length is how many tokens each text was made to, and Wanted how many it is to have; 0 of others.
	Length, Wanted int
	Later          int // how many tokens the later turns of a conversation add at most
	// Output caps the answer in tokens; exact asks for one of that length, where the server can.
	Output int
	Exact  bool
	// ID identifies the prompt in Answer; "" where it is made to length.
	ID      string
	Scripts Scripts // those of the texts or messages
	// First takes the first token of a good answer; nil where it is not watched.
	First func(*result.FirstToken)
	// Judge says what an answer is worth, and why it is not right; nil where nothing is expected.
	Judge func(Answer) (result.Verdict, string)
	// Tool is a function to call, schema what the answer is to follow; nil is none.
	Tool   *api.Tool
	Schema json.RawMessage
	// Must makes a failure of an answer that is not right.
	Must bool
	Skip *result.Skip // why not to ask now; nil where it can be asked
	// Learn takes the server's count of all texts, and returns why an answer to
	// them is not one to what was to be asked; nil where nothing is learnt.
	Learn       func(tokens int) *result.Skip
	TopLogprobs int    // api.Params.TopLogprobs
	Session     string // what requests that a balancer keeps together have in common; "" for others
	// Prefix is the prefix policy of the result where it is not that of the first request of a
	// run, and Turn which turn of a conversation it is.
	Prefix config.Prefix
	Turn   *result.Turn
	// Next returns what the run asks next, nil for nothing; nil is never. It is not used in bursts.
	Next func(Asked) *Question
	// Instead has the question replace the one before if it succeeds, and be forgotten if not.
	Instead bool
}

// Asked is a question that was asked.
type Asked struct {
	Result *result.Result
	Text   string // what a user sees of the answer
}

// Round is how many questions of a run are asked at a time.
type Round struct {
	// Size is how many are sent together, over own connections; 0 is one, alone, and those that follow from it.
	Size int
	// Beside is the length in tokens of a long prompt that is the first of them, for a token; 0 is none. It is no probe.
	Beside int
	// Offsets draws at which time from the first each of them is to start; nil is all at once.
	Offsets func() []time.Duration
}

// Answer is an answer to be judged.
type Answer struct {
	Text string // what a user sees of it
	// Finish is its finish reason in the closed set of api.FinishReasons; "" is not known.
	Finish string
	// Calls are the calls of functions in it, and Reasoning what came before it; empty where nobody asks for calls.
	Calls     []Call
	Reasoning string
}

// Call is a call of a function, put together from its pieces.
type Call struct {
	// Name is the name of the function, Arguments the text of its arguments, which should be a JSON object.
	Name, Arguments string
}

const (
	// maxCalls and maxCallBytes bound what is kept of the calls of one reply. What is past them is dropped.
	maxCalls     = 16
	maxCallBytes = 64 << 10
)

// Calls puts the calls of one reply together from the pieces of its frames. The zero value is ready to use.
type Calls struct {
	indexes []int
	calls   []Call
	bytes   int
}

// Add takes the pieces of the next frame. Arguments are joined. So are names, but
// for one that repeats what is there: some servers name the function in every piece.
func (c *Calls) Add(pieces []api.CallPiece) {
	for _, p := range pieces {
		i := slices.Index(c.indexes, p.Index)
		if i < 0 && len(c.calls) == maxCalls || c.bytes+len(p.Name)+len(p.Arguments) > maxCallBytes {
			continue
		}
		if i < 0 {
			i = len(c.calls)
			c.indexes, c.calls = append(c.indexes, p.Index), append(c.calls, Call{})
		}
		c.bytes += len(p.Name) + len(p.Arguments)
		call := &c.calls[i]
		if name := string(p.Name); name != call.Name {
			call.Name += name
		}
		call.Arguments += string(p.Arguments)
	}
}

// List returns the calls in the order in which they began.
func (c *Calls) List() []Call { return c.calls }

// Scripts is a set of scripts that a text is written in.
type Scripts uint32

// Hash identifies a text: the first 16 hex digits of the SHA-256 over its bytes.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// Length is a length in tokens, and how often it is drawn relative to others, where there are any.
type Length = config.WeightedLength

// Draw returns the tokens of one of the lengths, at random by weight. There is one at least; one alone takes no rng.
func Draw(lengths []Length, rng *rand.Rand) int {
	if len(lengths) == 1 {
		return lengths[0].Tokens
	}
	return At(lengths, rng.Float64())
}

// At returns the tokens of the length at a share of all lengths by weight, from 0 to 1.
func At(lengths []Length, share float64) int {
	last := len(lengths) - 1
	at := share * config.TotalWeight(lengths)
	for _, l := range lengths[:last] {
		if at -= l.Weight; at < 0 {
			return l.Tokens
		}
	}
	return lengths[last].Tokens
}

// LengthsOf returns the lengths to draw from.
func LengthsOf(l config.Lengths) []Length {
	if len(l.Mix) == 0 {
		return []Length{{Tokens: l.Max()}}
	}
	return l.Mix
}

// NewRand returns a generator for what one prober draws.
func NewRand() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

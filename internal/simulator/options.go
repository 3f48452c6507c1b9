package simulator

import (
	"cmp"
	"log/slog"
	"time"
)

// Options say what server to simulate. The zero value is a healthy one.
//
// On an idle replica a request of P tokens that are not in its prefix cache has
// its first token FixedDelay + n x (P/PrefillTokensPerSecond + DecodeStep) after
// its arrival, where n is its PrefillNoise, and each further one a DecodeStep
// later. Replica i of N, counted from 0, begins i/N of a DecodeStep later.
type Options struct {
	// Model is the name of the one model served; default "simulated-8b".
	Model string
	// Engine is the server software to show where nothing is generated, and
	// whose metrics page the server has; one of Engines; default "vllm".
	Engine string
	// Replicas is the number of engines behind the address, each with a step
	// loop and a KV cache of its own; default 1.
	Replicas int
	// Routing is how a request finds its replica, one of Routings; default
	// LeastLoaded.
	Routing string
	// StickyHeader is the header that Sticky looks at; default "X-Session-Id".
	StickyHeader string
	// Slots is how many sequences a replica batches at once; default 32.
	Slots int
	// QueueLimit is how many requests may wait at a replica whose slots are
	// taken; one more is answered 503. 0 is no limit.
	QueueLimit int
	// PrefillTokensPerSecond is the speed of a replica on uncached prompt
	// tokens; default 8000.
	PrefillTokensPerSecond float64
	// FixedDelay is the time before a request reaches its replica, the same for
	// each: the network, tokenising.
	FixedDelay time.Duration
	// PrefillNoise is the relative standard deviation of the time that a request
	// takes from entering a batch to its first token: a factor drawn for each
	// request, log-normal with mean 1. 0.1 is 10 %.
	PrefillNoise float64
	// DecodeStep is how long a step takes that samples one token; default
	// 20ms.
	DecodeStep time.Duration
	// DecodeStepPerSequence is added to a step for each further sequence that
	// samples a token in it; default 100µs, negative is none.
	DecodeStepPerSequence time.Duration
	// TokensPerEvent is the mean number of tokens in the events of a stream after the
	// first one, as speculative decoding sends them, 1 to 5; default 1. The pace of the
	// tokens remains what the steps make it.
	TokensPerEvent float64
	// BlockSize is the number of tokens in a block of the KV cache; default 16.
	BlockSize int
	// Blocks is the number of blocks of a replica's KV cache; default 4096.
	Blocks int
	// ContextLength bounds prompt plus output, in tokens; default 8192, at
	// most what the KV cache holds.
	ContextLength int
	// ReasoningTokens is how many of the output tokens of a chat reply are
	// reasoning, before the answer starts.
	ReasoningTokens int
	// WeightsVersion names the weights. Where it is set, it decides the text of
	// greedy answers, the log-probabilities, a part of embeddings and scores, and the
	// system_fingerprint of the OpenAI protocols; without it the model counts, and there is no fingerprint.
	WeightsVersion string
	// Quality is the share of the questions that the model knows the answer to,
	// and of the sampled answers that are right; default 1, negative is none.
	Quality float64
	// BadCalls is the share of the calls of functions, and of the answers in JSON, that
	// are not valid, each in one of the ways of check.ToolCallVerdicts.
	BadCalls float64
	// GreedyFlips is the share of the greedy answers that differ from the others
	// to their prompt from some token on, although nothing changed. Whole
	// answers to questions do not.
	GreedyFlips float64
	// LogprobShift is added to the log-probability of each token of a text that
	// is scored, LogprobNoise is the standard deviation of what is drawn for each
	// request and added too; in nats. The mean over a long text is about -2.3
	// without them, and no token gets above 0, so that a shift of 0.4 still holds.
	LogprobShift, LogprobNoise float64
	// QuantizeAfter is the time from the start after which the weights are as if they
	// were quantized: the log-probabilities of first tokens are others, and what the
	// weights decide of embeddings and scores, and nothing else. 0 is never.
	QuantizeAfter time.Duration
	// Background is how many sequences Serve itself keeps running or queued,
	// over all replicas.
	Background int
	// BackgroundInput and BackgroundOutput are their mean lengths in tokens;
	// default 512 and 128. A quarter of each prompt is common to all.
	BackgroundInput, BackgroundOutput int
	// Faults are shown unasked, one drawn evenly for
	// FaultRatio of the generation requests whose path names none.
	Faults     []Fault
	FaultRatio float64
	// Seed makes ids, lengths and draws repeatable.
	Seed uint64
	// Logger gets one debug line per generation request; default none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Model = cmp.Or(o.Model, "simulated-8b")
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.Routing = cmp.Or(o.Routing, LeastLoaded)
	o.StickyHeader = cmp.Or(o.StickyHeader, "X-Session-Id")
	o.Slots = cmp.Or(o.Slots, 32)
	o.PrefillTokensPerSecond = cmp.Or(o.PrefillTokensPerSecond, 8000)
	o.DecodeStep = cmp.Or(o.DecodeStep, 20*time.Millisecond)
	o.DecodeStepPerSequence = max(0, cmp.Or(o.DecodeStepPerSequence, 100*time.Microsecond))
	o.TokensPerEvent = min(o.TokensPerEvent, maxTokensPerEvent)
	o.Quality = max(0, cmp.Or(o.Quality, 1))
	o.BlockSize = cmp.Or(o.BlockSize, 16)
	o.Blocks = cmp.Or(o.Blocks, 4096)
	o.ContextLength = min(cmp.Or(o.ContextLength, 8192), o.Blocks*o.BlockSize)
	o.BackgroundInput = cmp.Or(o.BackgroundInput, 512)
	o.BackgroundOutput = cmp.Or(o.BackgroundOutput, 128)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

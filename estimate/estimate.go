// Package estimate makes statements from few noisy measurements: what a prompt
// costs by its length, what a cached prefix is worth, how many requests at once
// an endpoint carries, and whether what should stay the same has changed. A
// statement that the measurements do not support is not made.
package estimate

import "time"

// Interval is an estimate with the bounds that it lies between with 95 %
// confidence.
type Interval struct {
	Value, Lower, Upper float64
}

// Prefill is what TTFT tells of the prefill of one endpoint: TTFT is the fixed
// part and then grows with each prompt token that is not in the prefix cache. It
// is that of the typical probe: few slow ones do not move it. It assumes that
// each token takes as long as another, and that the noise of probes is
// independent and in proportion to TTFT; slow hours that the samples share are
// in the value and not in the bounds.
type Prefill struct {
	// TokensPerSecond is the speed on uncached prompt tokens.
	TokensPerSecond Interval
	// FixedSeconds is the part that does not depend on the length: network,
	// queue, tokenising of the least, and the first step of decoding. It cannot be
	// negative, so that neither is its lower bound.
	FixedSeconds Interval
}

// Knee is where the bursts of a run begin to miss the objective: more than a tenth
// of the requests have their first token later, or fail. The first burst misses
// it only by being slow or turned away; other failures are no matter of load.
type Knee struct {
	// Concurrency is the size of the smallest burst that did.
	Concurrency int
	// TokensPerSecond is the output of that burst, as in Burst; 0 is not known.
	TokensPerSecond float64
}

// Source is what was watched for a change. The set is closed: it is a label
// value.
type Source string

// The sources.
const (
	SourceAnswer      Source = "answer"             // the text of the answer to a fixed prompt
	SourceFingerprint Source = "system_fingerprint" // what the reply tells of the system
	SourceModel       Source = "model"              // the model as the reply names it
	SourceLogprob     Source = "logprob"            // the score of the reference passage
)

// Sources lists the closed set.
func Sources() []Source {
	return []Source{SourceAnswer, SourceFingerprint, SourceModel, SourceLogprob}
}

// Findings is what the results of one endpoint and module tell together. It is
// never changed once made; nil is not known.
type Findings struct {
	// Model is the model that this is about; "" is not known.
	Model   string
	Prefill *Prefill
	// HitRatio is the share of the prompt that came from the prefix cache in the
	// warm half of pairs or in warm probes, as the replies tell. A ratio of 0 that
	// the pairs' own TTFT contradicts, or cannot confirm yet, is not known.
	HitRatio *float64
	// Benefit is by how many seconds the second of a pair has its first token
	// earlier than the first.
	Benefit *Interval
	// ColdCached counts cold probes of whose prompt more came from the cache than
	// the server's own template can be: a fault of the prober or of the server's
	// count. ColdTold tells whether any reply to a cold probe told of the cache;
	// without, ColdCached is not known.
	ColdCached uint64
	ColdTold   bool
	Knee       *Knee
	// Changes counts the changes by index in Sources, and LastChange are their
	// times; Watched tells which sources have anything to watch.
	Changes    [4]uint64
	LastChange [4]time.Time
	Watched    [4]bool
	// Logprob is the latest mean log-probability of the reference passage, in
	// nats per token.
	Logprob *float64
	// Bursts are the bursts of the latest run, small ones first.
	Bursts []Burst
}

// Burst is what requests that started together came to.
type Burst struct {
	// Concurrency is how many there were to be.
	Concurrency int
	// Failed is how many of them did not succeed.
	Failed int
	// TokensPerSecond is the output of those that succeeded, by the server's own
	// count, over the time from the first start to the last end; 0 is not known.
	TokensPerSecond float64
	// StartSpread is the time from the first start to the last one; negative is
	// not known.
	StartSpread time.Duration
}

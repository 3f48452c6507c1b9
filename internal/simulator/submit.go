package simulator

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"

	"github.com/inference-exporter/inference_exporter/prober/check"
)

// defaultOutput is how long an answer is to a request that names no limit.
const defaultOutput = 256

// submit gives the request to its replica.
func (x *exchange) submit() error {
	o, a := &x.s.o, &x.ask
	if room := o.ContextLength - len(a.prompt); max(a.maxOutput, a.minOutput, 1) > room {
		return badRequest(fmt.Sprintf("the model's context length is %d tokens, but %d in the prompt and %d of output were asked",
			o.ContextLength, len(a.prompt), max(a.maxOutput, a.minOutput, 1)))
	}
	if o.FixedDelay > 0 {
		if err := sleep(x.ctx(), o.FixedDelay); err != nil {
			return err
		}
	}
	if a.reasoning {
		x.reasoning = o.ReasoningTokens
	}
	output, reason := x.compose()
	x.seq = newSequence(a.prompt, output, reason)
	x.seq.scored = a.echo
	x.seq.pace = x.s.pace()
	x.seq.streaming = a.stream
	x.replica = x.s.route(x.r)
	if !x.replica.submit(x.seq) {
		x.seq = nil
		return refusal{http.StatusServiceUnavailable, "ServiceUnavailableError", "the queue is full"}
	}
	x.rec.update(func(r *Record) {
		r.PromptTokens, r.Replica = len(a.prompt), x.replica.index
		r.Verdict, r.Flipped = x.verdict, x.speech.turn > 0
	})
	return nil
}

// compose decides what to say, and returns its length and how it ends.
func (x *exchange) compose() (int, finish) {
	a := &x.ask
	if answer, verdict, ok := x.s.answerTo(a, x.weights); ok {
		x.speech.said = answer
		n := x.reasoning + len(answer)
		if limit := cmp.Or(a.maxOutput, x.s.o.ContextLength-len(a.prompt)); limit < n {
			if verdict == check.Repetition && limit-x.reasoning >= len(answer)/2 {
				x.verdict = verdict // a loop is known by less
			}
			return limit, finishLength
		}
		if !a.ignoreEOS && a.minOutput <= n {
			x.verdict = verdict
			return n, finishStop
		}
	}
	output, reason := x.s.outputLength(a)
	x.speech.voice = x.weights.voice(a.text)
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	flips := x.s.o.GreedyFlips
	switch {
	case a.sampled:
		x.speech.offset = x.s.rng.IntN(100)
	case flips > 0 && x.s.rng.Float64() < flips:
		x.speech.turn = 1 + x.s.rng.IntN(max(1, output-x.reasoning))
	}
	return output, reason
}

// pace draws how much longer than usual a prompt takes.
func (s *Server) pace() float64 {
	if s.o.PrefillNoise <= 0 {
		return 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return logNormal(s.rng, s.o.PrefillNoise)
}

// logNormal draws a number above 0 with mean 1 and the given standard deviation.
func logNormal(rng *rand.Rand, deviation float64) float64 {
	variance := math.Log1p(deviation * deviation) // of the logarithm
	return math.Exp(math.Sqrt(variance)*rng.NormFloat64() - variance/2)
}

// outputLength decides when the model ends: at the limit, or before it with
// StopProbability after each token.
func (s *Server) outputLength(a *ask) (int, finish) {
	room := s.o.ContextLength - len(a.prompt)
	limit, reason := a.maxOutput, finishLength
	if limit == 0 && a.ignoreEOS {
		limit = room
	}
	if limit == 0 {
		limit, reason = min(max(defaultOutput, a.minOutput), room), finishStop
	}
	if a.ignoreEOS || s.o.StopProbability <= 0 {
		return limit, reason
	}
	s.mu.Lock()
	u := s.rng.Float64()
	s.mu.Unlock()
	// The number of trials to the first success, by inversion.
	stop := 1 + math.Log(1-u)/math.Log(1-min(s.o.StopProbability, 0.999999))
	if n := max(int(min(stop, float64(limit))), a.minOutput); n < limit {
		return n, finishStop
	}
	return limit, reason
}

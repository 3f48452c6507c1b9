package simulator

import (
	"math"
	"slices"
	"time"
)

const (
	// firstTokens is how many tokens a first token is drawn from, and firstSpread the
	// mean difference of the log-probabilities of neighbours, in nats.
	firstTokens = 5
	firstSpread = 1.0
	// quantized is by how much each log-probability moves at Options.QuantizeAfter.
	quantized = 0.1
)

// isQuantized reports whether Options.QuantizeAfter is over.
func (s *Server) isQuantized() bool {
	return s.o.QuantizeAfter > 0 && time.Since(s.started) > s.o.QuantizeAfter
}

// drawFirst decides the first token of an answer of one token to a greedy request, by
// log-probabilities that depend on the weights, and on noise: where the two likeliest
// are as close as the noise, one or the other is first. LogprobShift moves each of
// them up or down, as other arithmetic does. Without WeightsVersion the model counts,
// and all of its first tokens are alike.
func (x *exchange) drawFirst() {
	a, w := &x.request, x.weights
	if a.maxOutput != 1 || a.sampled || w.version == "" || x.text.fixed != nil || x.reasoning > 0 {
		return
	}
	shift := w.shift
	if x.s.isQuantized() {
		shift += quantized
	}
	order := x.text.order
	p := -0.5
	var top []tokenScore
	for i := range firstTokens {
		h := mix(order, uint64(i)+1_000)
		moved := shift
		if h&1 == 0 {
			moved = -moved
		}
		logprob := min(0, p+moved+x.s.scoreNoise())
		word := answerText{order: mix(order, uint64(i)+2_000)}
		text := string(word.append(nil, x.s.words, 0))
		top = append(top, tokenScore{ID: tokenID(hashText(text)), Text: text, Logprob: &logprob})
		p += firstSpread * math.Log((float64(h>>11)+0.5)/(1<<53)) // an exponential step down
	}
	slices.SortStableFunc(top, func(a, b tokenScore) int {
		switch {
		case *a.Logprob > *b.Logprob:
			return -1
		case *a.Logprob < *b.Logprob:
			return 1
		}
		return 0
	})
	if x.text.flipAt == 0 {
		x.text.fixed = []string{top[0].Text}
	}
	x.top = top[:min(a.top, len(top))]
}

package prober

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/prompt"
)

// Lengths are the lengths of prompts and answers that users ask for, in tokens, at least
// one of each.
type Lengths struct{ Inputs, Outputs []prompt.Length }

// SetLengths sets what a module with traffic draws from; nil is not known. It is safe
// beside a run, and lengths must not be changed afterwards.
func (p *Prober) SetLengths(l *Lengths) {
	if s, ok := p.questions.(*lengthSource); ok && s.traffic != nil {
		s.traffic.latest.Store(l)
	}
}

// trafficDraw draws lengths from those of users. The draws are spread evenly, so that few
// of them have the distribution of the users: a Kronecker sequence by the inverse powers
// of the plastic number, which spreads pairs evenly too.
type trafficDraw struct {
	module *config.Module
	latest atomic.Pointer[Lengths]
	drawn  *Lengths // that the prompts are of; nil is those of the module
	u, v   float64  // of the next draw, from 0 to 1
}

const (
	plasticInverse       = 0.7548776662466927
	plasticInverseSquare = 0.5698402909980532
)

func newTrafficDraw(m *config.Module, rng *rand.Rand) *trafficDraw {
	return &trafficDraw{module: m, u: rng.Float64(), v: rng.Float64()}
}

// next returns a prompt of a mix, which it makes one of the latest lengths, and the length
// of its answer.
func (t *trafficDraw) next(prompts *prompt.Mix) (prompt.Prompt, int) {
	latest := t.latest.Load()
	if latest != t.drawn {
		t.drawn = latest
		if latest == nil {
			prompts.Use(lengthsOf(t.module.InputTokens))
		} else {
			prompts.Use(cut(latest.Inputs, t.module.Traffic.MaxInputTokens))
		}
	}
	if latest == nil {
		return prompts.Next(), t.module.OutputTokens.Max()
	}
	t.u, t.v = fraction(t.u+plasticInverse), fraction(t.v+plasticInverseSquare)
	return prompts.At(t.u), min(prompt.At(latest.Outputs, t.v), t.module.Traffic.MaxOutputTokens)
}

func fraction(v float64) float64 {
	if v >= 1 {
		return v - 1
	}
	return v
}

// cut returns lengths, short ones first, with those above a bound cut to it.
func cut(lengths []prompt.Length, most int) []prompt.Length {
	var out []prompt.Length
	for _, l := range lengths {
		l.Tokens = min(l.Tokens, most)
		if n := len(out); n > 0 && out[n-1].Tokens == l.Tokens {
			out[n-1].Weight += l.Weight
		} else {
			out = append(out, l)
		}
	}
	return out
}

package lengths

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// SetMix sets what a module with traffic draws from; nil is not known. It is safe beside a
// run.
func (a *source) SetMix(m *Mix) {
	if a.traffic != nil {
		a.traffic.latest.Store(m)
	}
}

// source asks prompts made to length, each for an answer as long as its cap
// where the server can be made to.
type source struct {
	prompts *Prompts
	prefix  Prefix
	outputs []workload.Length
	rng     *rand.Rand
	learnt  bool         // the server has counted a prompt
	later   int          // tokens that the later turns of a conversation add
	traffic *trafficDraw // nil where lengths are those of the module
}

func newSource(m *config.Module) *source {
	a := &source{prefix: Prefix(m.Prefix), outputs: workload.LengthsOf(m.OutputTokens), rng: workload.NewRand(), later: m.TurnsBefore(m.Turns)}
	a.prompts = NewPrompts(workload.LengthsOf(m.InputTokens), a.prefix, a.rng)
	if m.Traffic != nil {
		a.traffic = newTrafficDraw(m, a.rng)
	}
	return a
}

func (a *source) Next(texts, context int) workload.Question {
	from, first, output := a.prompts, Prompt{}, 0
	if a.traffic != nil {
		first, output = a.traffic.next(a.prompts)
	} else {
		first, output = a.prompts.Next(), workload.Draw(a.outputs, a.rng)
	}
	wanted := first.Target
	// Before the first count a prompt may be half as long again as it should be.
	// One that does not fit is refused, and never counted.
	if !a.learnt && context > 0 && wanted+wanted/2+output+a.later > context {
		from = NewPrompts([]workload.Length{{Tokens: wanted * 2 / 3}}, a.prefix, a.rng)
		first = from.Next()
	}
	q := workload.Question{Texts: []string{first.Text}, Length: first.Target, Wanted: wanted, Later: a.later, Output: output, Exact: true}
	asked := Prompt{Words: first.Words, Target: wanted}
	if c, resting := a.prompts.Resting(asked, time.Now()); resting {
		q.Skip = truncates(c)
	}
	for len(q.Texts) < texts {
		q.Texts = append(q.Texts, from.Like(first).Text)
	}
	q.Learn = func(tokens int) *result.Skip {
		a.learnt = true
		c := Count{Words: first.Words, Tokens: tokens / texts}
		switch a.prompts.Learn(asked, c.Tokens, time.Now()) {
		case Truncated:
			return truncates(c)
		case Short:
			return &result.Skip{Reason: result.SkipTruncated, Text: fmt.Sprintf("the server counts %d tokens of a prompt made to have %d: either it truncates prompts, "+
				"or the next one is longer", c.Tokens, wanted)}
		default:
			return nil
		}
	}
	return q
}

// truncates is why prompts of a length are not asked, of which the server made c.
func truncates(c Count) *result.Skip {
	return &result.Skip{Reason: result.SkipTruncated, Text: fmt.Sprintf("the server truncates prompts: it counts %d tokens of one of %d words; "+
		"raise its context length (num_ctx of Ollama) or lower input_tokens", c.Tokens, c.Words)}
}

// trafficDraw draws lengths from those of users. The draws are spread evenly, so that few
// of them have the distribution of the users: a Kronecker sequence by the inverse powers
// of the plastic number, which spreads pairs evenly too.
type trafficDraw struct {
	module *config.Module
	latest atomic.Pointer[Mix]
	drawn  *Mix    // that the prompts are of; nil is those of the module
	u, v   float64 // of the next draw, from 0 to 1
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
func (t *trafficDraw) next(prompts *Prompts) (Prompt, int) {
	latest := t.latest.Load()
	if latest != t.drawn {
		t.drawn = latest
		if latest == nil {
			prompts.Use(workload.LengthsOf(t.module.InputTokens))
		} else {
			prompts.Use(cut(latest.Inputs, t.module.Traffic.MaxInputTokens))
		}
	}
	if latest == nil {
		return prompts.Next(), t.module.OutputTokens.Max()
	}
	t.u, t.v = fraction(t.u+plasticInverse), fraction(t.v+plasticInverseSquare)
	return prompts.At(t.u), min(workload.At(latest.Outputs, t.v), t.module.Traffic.MaxOutputTokens)
}

func fraction(v float64) float64 {
	if v >= 1 {
		return v - 1
	}
	return v
}

// cut returns lengths, short ones first, with those above a bound cut to it.
func cut(lengths []workload.Length, most int) []workload.Length {
	var out []workload.Length
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

package report

import (
	"fmt"
	"strings"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// fairness is what makes results of one model comparable with those of another, whose tokens may be longer or shorter.
type fairness struct {
	atOnce, priced, output int // requests at once at most, and those with a cost, with their output tokens
	usd                    float64
	perSecond, perToken    []float64 // characters of each answer
}

func (f *fairness) add(r *result.Result, price *config.Price) {
	f.atOnce = max(f.atOnce, r.Concurrency)
	if usd, ok := r.Cost(price); ok {
		f.usd, f.output, f.priced = f.usd+usd, f.output+max(0, r.Tokens.Output), f.priced+1
	}
	if t := &r.Timing; r.Outcome == result.Success && t.TPOT > 0 && t.PerCharacter > 0 {
		f.perSecond = append(f.perSecond, 1/t.PerCharacter.Seconds())
		f.perToken = append(f.perToken, t.TPOT.Seconds()/t.PerCharacter.Seconds())
	}
}

// figures returns what is known, by the names in JSON: medians of Unicode characters, and means of the cost, prompts
// included.
func (f *fairness) figures() map[string]float64 {
	known := map[string]float64{}
	if len(f.perSecond) > 0 {
		known["output_characters_per_second"] = *stats.MedianOf(f.perSecond, 1)
		known["output_characters_per_token"] = *stats.MedianOf(f.perToken, 1)
	}
	if f.priced > 0 {
		known["usd_per_request"] = f.usd / float64(f.priced)
	}
	if f.output > 0 {
		known["usd_per_million_output_tokens"] = 1e6 * f.usd / float64(f.output)
	}
	return known
}

// rows returns the figures in words, and the load that they are at; nil where there are none.
func (f *fairness) rows(label string) []row {
	var parts []string
	known := f.figures()
	for _, figure := range [][2]string{
		{"output_characters_per_second", "%.0f characters/s"},
		{"output_characters_per_token", "%.2f to a token"},
		{"usd_per_request", "$%.6f a request"},
		{"usd_per_million_output_tokens", "$%.2f for a million output tokens with their prompts"},
	} {
		if v, ok := known[figure[0]]; ok {
			parts = append(parts, fmt.Sprintf(figure[1], v))
		}
	}
	if parts == nil {
		return nil
	}
	return []row{{label, strings.Join(parts, ", ")}, {"  at", loadOf(f.atOnce)}}
}

// loadOf says with how much else a request was under way.
func loadOf(atOnce int) string {
	if atOnce > 1 {
		return fmt.Sprintf("up to %d requests at once, beside what others ask", atOnce)
	}
	return "a single request at a time, beside what others ask"
}

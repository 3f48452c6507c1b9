package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Fair is what makes results of one model comparable with those of another, whose tokens may be longer or shorter. What
// is nil is not known.
type Fair struct {
	// Concurrency is how many requests were sent at once, at most; what others ask meanwhile is not known.
	Concurrency int `json:"concurrency"`
	// CharactersPerSecond and CharactersPerToken are medians over the answers, of Unicode characters.
	CharactersPerSecond *float64 `json:"output_characters_per_second,omitempty"`
	CharactersPerToken  *float64 `json:"output_characters_per_token,omitempty"`
	// USDPerRequest is the mean cost of a request, and USDPerMillion that of a million output tokens, prompts included.
	USDPerRequest *float64 `json:"usd_per_request,omitempty"`
	USDPerMillion *float64 `json:"usd_per_million_output_tokens,omitempty"`
}

// fairness is what a Fair is made of.
type fairness struct {
	atOnce           int
	perSecond, token []float64
	counted          []result.Result // what a cost follows from, of each
}

func (f *fairness) add(r *result.Result) {
	f.atOnce = max(f.atOnce, r.Concurrency, 1)
	if r.Tokens.Prompt >= 0 {
		f.counted = append(f.counted, result.Result{Start: r.Start, Tokens: r.Tokens})
	}
	if t := &r.Timing; r.Outcome == result.Success && t.TPOT > 0 && t.PerCharacter > 0 {
		f.perSecond = append(f.perSecond, 1/t.PerCharacter.Seconds())
		f.token = append(f.token, t.TPOT.Seconds()/t.PerCharacter.Seconds())
	}
}

// of returns what is known with a price; nil is nothing.
func (f *fairness) of(price *config.Price) *Fair {
	all := &Fair{Concurrency: f.atOnce, CharactersPerSecond: stats.MedianOf(f.perSecond, 1), CharactersPerToken: stats.MedianOf(f.token, 1)}
	usd, output, priced := 0.0, 0, 0
	for i := range f.counted {
		r := &f.counted[i]
		if cost, ok := r.Cost(price); ok {
			usd, output, priced = usd+cost, output+max(0, r.Tokens.Output), priced+1
		}
	}
	if priced > 0 {
		all.USDPerRequest = new(usd / float64(priced))
	}
	if priced > 0 && output > 0 {
		all.USDPerMillion = new(1e6 * usd / float64(output))
	}
	if all.CharactersPerSecond == nil && priced == 0 {
		return nil
	}
	return all
}

func (f *fairness) rows(price *config.Price) []row {
	all := f.of(price)
	if all == nil {
		return nil
	}
	return []row{{"speed, cost", all.String()}, {"load", loadOf(all.Concurrency)}}
}

// String returns what is known but for the load.
func (f *Fair) String() string {
	var parts []string
	if f.CharactersPerSecond != nil {
		parts = append(parts, result.ThreeDigits(*f.CharactersPerSecond)+" characters/s, "+result.ThreeDigits(*f.CharactersPerToken)+" to a token")
	}
	if f.USDPerRequest != nil {
		parts = append(parts, fmt.Sprintf("$%.6f a request", *f.USDPerRequest))
	}
	if f.USDPerMillion != nil {
		parts = append(parts, fmt.Sprintf("$%.2f for a million output tokens with their prompts", *f.USDPerMillion))
	}
	return strings.Join(parts, ", ")
}

// loadOf says with how much else a request was under way.
func loadOf(atOnce int) string {
	if atOnce > 1 {
		return fmt.Sprintf("up to %d requests at once, beside what others ask", atOnce)
	}
	return "a single request at a time, beside what others ask"
}

// unlike is the ratio of the lengths of tokens from which on those of two models are not alike.
const unlike = 1.1

// areUnlike reports whether the tokens of two models differ in length.
func areUnlike(a, b *Fair) bool {
	if a == nil || b == nil || a.CharactersPerToken == nil || b.CharactersPerToken == nil {
		return false
	}
	return math.Abs(math.Log(*a.CharactersPerToken / *b.CharactersPerToken)) > math.Log(unlike)
}

package report

import (
	"fmt"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
)

// costOf returns what the tokens of a result cost in US dollars, by the server's
// counts; false where tokens have no price or were not counted. Prompt tokens
// that are not known to come from the cache have the full price.
func costOf(price *config.Price, r *result.Result) (usd float64, ok bool) {
	t := &r.Tokens
	if !price.PerToken() || t.Prompt < 0 {
		return 0, false
	}
	return price.USD(t.Prompt, t.Cached, max(0, t.Output)), true
}

// cost says what the run cost, where tokens have a price.
func (p *page) cost(price *config.Price, results []*result.Result) {
	total, counted := 0.0, 0
	for _, r := range results {
		if usd, ok := costOf(price, r); ok {
			total += usd
			counted++
		}
	}
	if counted == 0 {
		return
	}
	text := fmt.Sprintf("$%.6f by the configured prices", total)
	if counted < len(results) {
		text += fmt.Sprintf(", for the %d of %d requests whose tokens the server counted", counted, len(results))
	}
	p.section("Cost", []row{{"run", text}})
}

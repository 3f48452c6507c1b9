package report

import (
	"fmt"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
)

// cost says what the run cost, where tokens have a price.
func (p *page) cost(price *config.Price, results []*result.Result) {
	total, counted := 0.0, 0
	for _, r := range results {
		if usd, ok := r.Cost(price); ok {
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

package status

import (
	"github.com/inference-exporter/inference_exporter/internal/page"
)

// TTFTParts is where the mean time to first token of the latest probes of an endpoint
// went, in seconds. With Excess nothing of it is known: the pages of servers and gateway
// show other requests that take longer than the probes by so many seconds.
type TTFTParts struct {
	TTFT   float64 `json:"ttft_seconds"`
	Probes int     `json:"probes"`
	Span   float64 `json:"window_seconds"`
	// Requests is how many requests the means of the pages are of, probes among them.
	Requests uint64                    `json:"requests,omitempty"`
	Parts    map[page.TTFTPart]float64 `json:"parts,omitempty"`
	Excess   float64                   `json:"excess_seconds,omitempty"`
}

// SetTTFTParts replaces the parts of the time to first token of an endpoint; nil is not
// known. They must not be changed afterwards.
func (b *Board) SetTTFTParts(endpoint string, p *page.TTFTParts) {
	e := b.endpoint(endpoint)
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.parts = p // shown with the change of the probe or the reading that it follows from
}

// newTTFTParts returns the parts as the page shows them; nil for nil.
func newTTFTParts(p *page.TTFTParts) *TTFTParts {
	if p == nil {
		return nil
	}
	out := &TTFTParts{TTFT: p.TTFT, Probes: p.Probes, Span: p.Span.Seconds(), Requests: p.Requests, Excess: p.Excess}
	for i, name := range page.TTFTPartNames() {
		if v := p.Seconds[i]; v != nil {
			if out.Parts == nil {
				out.Parts = map[page.TTFTPart]float64{}
			}
			out.Parts[name] = *v
		}
	}
	return out
}

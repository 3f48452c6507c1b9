package explain

import (
	"slices"
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

func known(all ...workload.Finding) EndpointFacts { return FactsOf(&workload.Findings{All: all}) }

// The parts of TTFT are evidence of what makes it long, and name the queue of a gateway.
func TestTTFTPartsAreEvidence(t *testing.T) {
	late := [3]float64{2, 0.2, 0.5}
	for _, c := range []struct {
		name  string
		parts map[page.TTFTPart]float64
		e     Pages
		cause Cause
		title string
		line  string
	}{
		{
			"queue of the gateway",
			map[page.TTFTPart]float64{page.PartGatewayQueue: 1.8, "prefill": 0.15, "rest": 0},
			Pages{Known: 1, Up: 1, Levels: Levels{config.TTFT: levels(0.18, 0.18), config.RequestsWaiting: now(0)}},
			GatewayQueue, "requests wait in the queue of the gateway", "TTFT in parts: gateway queue 1.8 s, prefill 150 ms",
		},
		{
			"something between",
			map[page.TTFTPart]float64{"rest": 1.8, "prefill": 0.15},
			Pages{Known: 1, Up: 1, Levels: Levels{config.TTFT: levels(0.18, 0.18), config.RequestsWaiting: now(0)}},
			GatewayFault, "a gateway or proxy between adds the delay", "TTFT in parts: rest 1.8 s, prefill 150 ms",
		},
		{
			"queue of the servers",
			map[page.TTFTPart]float64{"engine_queue": 1.6, "prefill": 0.2},
			Pages{Known: 1, Up: 1, Levels: Levels{config.TTFT: levels(1.9, 0.18), config.QueueTime: levels(1.6, 0), config.RequestsWaiting: levels(12, 0)}},
			QueueFull, "requests wait in the queue of the servers", "TTFT in parts: engine queue 1.6 s, prefill 200 ms",
		},
		{
			"prefill",
			map[page.TTFTPart]float64{"prefill": 1.8, "network": 0.1},
			Pages{Known: 1, Up: 1, Levels: Levels{config.TTFT: levels(1.9, 0.18), config.PrefillTime: levels(1.8, 0.15), config.RequestsWaiting: now(0)}},
			PrefillSlow, "", "TTFT in parts: prefill 1.8 s, network 100 ms",
		},
	} {
		var parts page.TTFTParts
		for i, name := range page.TTFTPartNames() {
			if v, ok := c.parts[name]; ok {
				parts.Seconds[i] = &v
			}
		}
		e := with(slow(late, calmTPOT), func(e *Evidence) { e.Servers, e.Facts = &c.e, known(&parts) })
		first := Explain(e)[0]
		if first.Cause != c.cause || c.title != "" && first.Title != c.title || !slices.Contains(first.Evidence, c.line) {
			t.Errorf("%s: %+v", c.name, first)
		}
	}
}

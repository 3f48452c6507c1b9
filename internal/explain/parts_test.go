package explain

import (
	"slices"
	"testing"
)

// The parts of TTFT are evidence of what makes it long, and name the queue of a gateway.
func TestTTFTPartsAreEvidence(t *testing.T) {
	late := [3]float64{2, 0.2, 0.5}
	for _, c := range []struct {
		name  string
		parts []Part
		e     Servers
		cause Cause
		title string
		line  string
	}{
		{
			"queue of the gateway",
			[]Part{{"gateway_queue", 1.8}, {"prefill", 0.15}, {"rest", 0}},
			Servers{Known: 1, Up: 1, TTFT: levels(0.18, 0.18), Waiting: now(0)},
			GatewayQueue, "requests wait in the queue of the gateway", "TTFT in parts: gateway queue 1.8 s, prefill 150 ms",
		},
		{
			"something between",
			[]Part{{"rest", 1.8}, {"prefill", 0.15}},
			Servers{Known: 1, Up: 1, TTFT: levels(0.18, 0.18), Waiting: now(0)},
			GatewayFault, "a gateway or proxy between adds the delay", "TTFT in parts: rest 1.8 s, prefill 150 ms",
		},
		{
			"queue of the servers",
			[]Part{{"engine_queue", 1.6}, {"prefill", 0.2}},
			Servers{Known: 1, Up: 1, TTFT: levels(1.9, 0.18), Queue: levels(1.6, 0), Waiting: levels(12, 0)},
			QueueFull, "requests wait in the queue of the servers", "TTFT in parts: engine queue 1.6 s, prefill 200 ms",
		},
		{
			"prefill",
			[]Part{{"prefill", 1.8}, {"network", 0.1}},
			Servers{Known: 1, Up: 1, TTFT: levels(1.9, 0.18), Prefill: levels(1.8, 0.15), Waiting: now(0)},
			PrefillSlow, "", "TTFT in parts: prefill 1.8 s, network 100 ms",
		},
	} {
		e := with(slow(late, calmTPOT), func(e *Evidence) { e.Servers, e.TTFTParts = &c.e, c.parts })
		first := Explain(e)[0]
		if first.Cause != c.cause || c.title != "" && first.Title != c.title || !slices.Contains(first.Evidence, c.line) {
			t.Errorf("%s: %+v", c.name, first)
		}
	}
}

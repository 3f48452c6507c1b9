package result_test

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

func TestRequestDuration(t *testing.T) {
	const ms = time.Millisecond
	phases := func(dns, connect, tls time.Duration) [result.NumPhases]time.Duration {
		return [result.NumPhases]time.Duration{
			result.PhaseDNS: dns, result.PhaseConnect: connect, result.PhaseTLS: tls,
			result.PhaseWrite: ms, result.PhaseFirstByte: 90 * ms, result.PhaseClose: result.Absent,
		}
	}
	for name, test := range map[string]struct {
		timing         result.Timing
		setup, request time.Duration
	}{
		"new connection":  {result.Timing{Duration: 100 * ms, Phases: phases(ms, 2*ms, 4*ms)}, 7 * ms, 93 * ms},
		"kept connection": {result.Timing{Duration: 100 * ms, Phases: phases(result.Absent, 0, result.Absent)}, 0, 100 * ms},
		"not measured":    {result.Timing{Duration: result.Absent, Phases: phases(ms, 2*ms, result.Absent)}, 3 * ms, result.Absent},
	} {
		if got := test.timing.Setup(); got != test.setup {
			t.Errorf("%s: set-up took %v, want %v", name, got, test.setup)
		}
		if got := test.timing.RequestDuration(); got != test.request {
			t.Errorf("%s: the request took %v, want %v", name, got, test.request)
		}
	}
}

// TestPhases wants a label of its own for every phase.
func TestPhases(t *testing.T) {
	seen := map[string]bool{"": true}
	for p := range result.NumPhases {
		if seen[p.String()] {
			t.Errorf("phase %d is %q", p, p)
		}
		seen[p.String()] = true
	}
}

package fleet

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

// readyBackends is a reading of a gateway's page that reports so many ready backends of
// three.
func readyBackends(at time.Time, ready float64) []page.Status {
	return []page.Status{{Server: "g", At: at, State: page.Up, Snapshot: &page.Snapshot{
		At: at, Engine: "acme", Values: map[config.Quantity]float64{config.Backends: 3, config.BackendsReady: ready},
	}}}
}

// How many backends are usually ready is known after five readings of the past, and is
// that of most of them.
func TestUsuallyReadyBackends(t *testing.T) {
	var p gatewayPages
	if p.usuallyReady() != nil {
		t.Error("usual before the first reading")
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, ready := range []float64{3, 3, 2, 3, 3} {
		p.add(readyBackends(at.Add(time.Duration(i)*15*time.Second), ready))
		if p.usuallyReady() != nil {
			t.Errorf("usual with %d earlier readings", i)
		}
	}
	p.add(readyBackends(at.Add(75*time.Second), 2))
	usual := p.usuallyReady()
	if usual == nil || *usual != 3 {
		t.Fatalf("usually %v, want 3", usual)
	}
	g := status.NewGateway("g", "", p.statuses, &p.uses, usual)
	if want := "2 of 3 backends ready, usually 3"; g.Why != want {
		t.Errorf("%q, want %q", g.Why, want)
	}
}

package config

import (
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// The objective of the endpoint finds no knee in arrivals, as it does in bursts.
func TestArrivalsHaveNoKnee(t *testing.T) {
	e := &Endpoint{SLO: &SLO{TTFT: model.Duration(time.Second)}}
	burst := &Module{Concurrency: []int{8}}
	if got := e.SLOWith(burst).TTFT; got != model.Duration(time.Second) {
		t.Errorf("bursts are compared with %s, want 1s", got)
	}
	burst.Arrivals = &Arrivals{Process: ArrivalPoisson, Rate: 4}
	if got := e.SLOWith(burst).TTFT; got != 0 {
		t.Errorf("arrivals are compared with %s, want nothing", got)
	}
}

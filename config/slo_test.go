package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
)

func milliseconds(n int) model.Duration { return model.Duration(time.Duration(n) * time.Millisecond) }

// A module's own objectives take the place of the endpoint's as a whole, and
// these that of the built-in module's: what they leave out is nobody's.
func TestSLOWith(t *testing.T) {
	endpoint := SLO{Objective: 0.999, TTFT: milliseconds(500), TPOT: milliseconds(50), E2E: seconds(90)}
	f := func(name string, want ...SLO) {
		t.Helper()
		c, err := Load("testdata/slo.good.yml")
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range c.Endpoints {
			if diff := cmp.Diff(want[i], e.SLOWith(c.Modules[name])); diff != "" {
				t.Errorf("%s with %s (-want +got):\n%s", e.Name, name, diff)
			}
		}
	}
	alone := SLO{Objective: 0.99}
	f("interactive", endpoint, SLO{Objective: 0.000001}, alone, SLO{Objective: 0.99, TTFT: seconds(2), TPOT: milliseconds(200)})
	f("code-completion", endpoint, SLO{Objective: 0.000001}, alone, SLO{Objective: 0.99, E2E: seconds(2)})
	f("long-context", endpoint, SLO{Objective: 0.000001}, alone, alone)
	f("none", endpoint, SLO{Objective: 0.000001}, alone, alone)
	long, open := SLO{Objective: 0.99, TTFT: seconds(5)}, alone
	f("long", long, long, long, long)
	f("open", open, open, open, open)
	f("rag", long, long, long, long)
	scored := SLO{Objective: 0.999, E2E: seconds(90)}
	f("scored", scored, SLO{Objective: 0.000001}, alone, alone)
	f("batch", endpoint, SLO{Objective: 0.000001}, alone, alone)
}

// Bursts are judged by nothing; all else is.
func TestJudged(t *testing.T) {
	c, err := Load("testdata/slo.good.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range c.Modules {
		if got, want := m.Judged(), name != "batch"; got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
}

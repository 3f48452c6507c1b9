package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
)

func milliseconds(n int) model.Duration { return model.Duration(time.Duration(n) * time.Millisecond) }

// A module's own objectives take the place of the endpoint's as a whole: what
// they leave out is not the endpoint's.
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
	rest := []SLO{{Objective: 0.000001}, {Objective: 0.99}, {Objective: 0.99}}
	f("interactive", append([]SLO{endpoint}, rest...)...)
	f("none", append([]SLO{endpoint}, rest...)...)
	long, open := SLO{Objective: 0.99, TTFT: seconds(5)}, SLO{Objective: 0.99}
	f("long", long, long, long, long)
	f("open", open, open, open, open)
}

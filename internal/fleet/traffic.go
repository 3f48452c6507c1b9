package fleet

import (
	"time"

	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
)

// traffic has the modules of an endpoint that have traffic ask what the servers of the
// endpoint count of their users. It is safe for concurrent use.
type traffic struct {
	users  *load.Traffic
	askers []asker // set before the first reading
}

// asker is a Runner whose lengths can be those of users.
type asker interface{ SetMix(m *load.Mix) }

// newTraffic returns the traffic of the endpoint of targets; nil where no module asks
// for it.
func newTraffic(targets []Target) *traffic {
	for _, t := range targets {
		if t.Traffic != nil {
			return &traffic{users: load.NewTraffic(time.Now)}
		}
	}
	return nil
}

// follow has a module ask what users ask, if it is to.
func (t *traffic) follow(of Target, r Runner) {
	if a, ok := r.(asker); ok && of.Traffic != nil {
		t.askers = append(t.askers, a)
	}
}

// of returns what users ask; nil where no module asks for it.
func (t *traffic) of() *load.Traffic {
	if t == nil {
		return nil
	}
	return t.users
}

// Observe implements Observer: probes are no requests of users.
func (t *traffic) Observe(o *Observation) { t.users.Probed(o.Result) }

// spent takes probes off that no observer gets.
func (t *traffic) spent(results []*result.Result) {
	if t == nil {
		return
	}
	for _, r := range results {
		t.users.Probed(r)
	}
}

// read takes in the pages of the servers, and hands on what users ask by now.
func (t *traffic) read(statuses []page.Status) {
	if t == nil {
		return
	}
	known := map[string]bool{}
	for i := range statuses {
		st := &statuses[i]
		known[st.Server] = true
		if s := st.Snapshot; s != nil && s.InputLengths != nil && s.OutputLengths != nil {
			t.users.Read(st.Server, cumulative(s.InputLengths), cumulative(s.OutputLengths))
		}
	}
	t.users.Keep(func(server string) bool { return known[server] })
	for _, a := range t.askers {
		a.SetMix(t.users.Mix())
	}
}

func cumulative(h *page.Histogram) load.Cumulative {
	return load.Cumulative{Bounds: h.Bounds, Counts: h.Counts, Count: h.Count}
}

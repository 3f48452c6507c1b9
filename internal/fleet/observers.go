package fleet

import (
	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Observation is a result of a probe, and how it came about.
type Observation struct {
	*result.Result
	Target Target // of the task: a rung
	// Disturbed is a result beside a burst of the exporter's own: its latencies say
	// nothing of the endpoint.
	Disturbed bool
	// Confirmation is a result of a run that the scheduler added after a failure.
	Confirmation bool
}

// Observer takes the results of tasks, one after the other for each task. It is safe
// for concurrent use.
type Observer interface{ Observe(o *Observation) }

// endpointObserver shows what an endpoint serves.
type endpointObserver struct{ probes *collector.Probes }

func (e endpointObserver) Observe(o *Observation) {
	e.probes.SetServed(o.Target.Endpoint.Name, o.Result)
}

// serverObserver compares what a probe saw with what the server's page shows.
type serverObserver struct{ servers *collector.Servers }

func (s serverObserver) Observe(o *Observation) {
	if o.Concurrency == 0 && o.Kind != api.Scoring {
		s.servers.ObserveProbe(o.Target.Endpoint.Name, o.Result, o.Disturbed)
	}
}

// selfObserver shows how well the exporter measures.
type selfObserver struct{ self *collector.Self }

func (s selfObserver) Observe(o *Observation) { s.self.Observe(o.Result) }

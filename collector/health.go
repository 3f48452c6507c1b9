package collector

import (
	"slices"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
)

// healthValues returns the state of an endpoint at the moment, and its cause.
type healthValues struct {
	state func() *health.Status
	cause func() explain.Cause // nil is never known
}

// healthFamily is a family of the states of endpoints.
type healthFamily = familyOf[healthValues]

// healthFamilies returns the families of the states, in the order of the documentation.
func healthFamilies() []*healthFamily {
	causes := explain.Causes()
	return []*healthFamily{
		newHealthFamily(Family{
			Name: "state", Labels: []string{"state"}, Values: config.Texts(health.States()),
			Help:  "1 for the state of the endpoint, 0 for the others.",
			Notes: "down: no module succeeds, after at least 2 failures in a row. flapping: down at least 3 times in one incident, and well in between. degraded: some probes fail, or the first one after being down succeeded. slow: all succeed, over an objective. stale: no result for 3 intervals and a timeout. waiting: no result yet. muted: by an operator, whatever it is otherwise. up: none of these. All but stale, waiting and muted end with a clean run of probes.",
		}, func(e encoder, f *family, v healthValues) {
			current := slices.Index(health.States(), v.state().State)
			for _, i := range f.order {
				e.gauge(i, number(i == current))
			}
		}),
		newHealthFamily(Family{
			Name: "state_since_timestamp_seconds", Unit: "seconds",
			Help: "When the state of the endpoint began, as a Unix time. For down, flapping and degraded it is the first failed probe of the incident, however often the endpoint went from one to another since.",
		}, emitOne(func(v healthValues) float64 { return float64(v.state().Since.UnixMilli()) / 1e3 })),
		newHealthFamily(Family{
			Name: "muted",
			Help: "1 while an operator has muted the endpoint, as for maintenance, and 0 otherwise. Probes go on. Alerts on the endpoint leave it out.",
		}, emitOne(func(v healthValues) float64 { return number(v.state().Mute != nil) })),
		newHealthFamily(Family{
			Name: "cause_info", Labels: []string{"cause"}, Values: config.Texts(causes),
			Help: "Always 1. The likeliest cause of the state of the endpoint while it is not up, by the rules in docs/explain.md; unknown if the evidence names none. Absent while the endpoint is up.",
		}, func(e encoder, f *family, v healthValues) {
			if v.cause == nil {
				return
			}
			if i := slices.Index(causes, v.cause()); i >= 0 {
				e.gauge(i, 1)
			}
		}),
	}
}

// newHealthFamily returns a family of gauges with the labels of an endpoint, without its
// model, which is not known after a restart in an outage. f.Name comes without
// "endpoint_".
func newHealthFamily(f Family, emit func(e encoder, f *family, v healthValues)) *healthFamily {
	f.Name, f.Group = "endpoint_"+f.Name, GroupEndpoint
	return &healthFamily{newFamily(f, []string{"endpoint"}, nil), emit}
}

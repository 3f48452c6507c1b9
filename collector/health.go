package collector

import (
	"slices"

	"github.com/inference-exporter/inference_exporter/internal/health"
)

// healthFamily is a family of the states of endpoints. Its samples come from a function
// that returns the state of the moment.
type healthFamily = familyOf[func() *health.Status]

// healthFamilies returns the families of the states, in the order of the documentation.
func healthFamilies() []*healthFamily {
	return []*healthFamily{
		newHealthFamily(Family{
			Name: "state", Labels: []string{"state"}, Values: labelValues(health.States()),
			Help: "1 for the state of the endpoint, 0 for the others. down: no module succeeds, after at least 2 failures in a row. degraded: some probes fail, or the first one after being down succeeded. slow: all succeed, over an objective. stale: no result for 3 intervals and a timeout. waiting: no result yet. muted: by an operator, whatever it is otherwise. up: none of these. down, degraded and slow end with a clean run of probes, so that they do not flap.",
		}, func(e encoder, f *family, state func() *health.Status) {
			current := slices.Index(health.States(), state().State)
			for _, i := range f.order {
				e.gauge(i, number(i == current))
			}
		}),
		newHealthFamily(Family{
			Name: "state_since_timestamp_seconds", Unit: "seconds",
			Help: "When the state of the endpoint began, as a Unix time. For down and degraded it is the first failed probe of the incident, however often the endpoint went from one to the other since.",
		}, func(e encoder, _ *family, state func() *health.Status) {
			e.gauge(0, float64(state().Since.UnixMilli())/1e3)
		}),
		newHealthFamily(Family{
			Name: "muted",
			Help: "1 while an operator has muted the endpoint, as for maintenance, and 0 otherwise. Probes go on. Alerts on the endpoint leave it out.",
		}, func(e encoder, _ *family, state func() *health.Status) {
			e.gauge(0, number(state().Mute != nil))
		}),
	}
}

// newHealthFamily returns a family of gauges with the labels of an endpoint, without its
// model, which is not known after a restart in an outage. f.Name comes without
// "endpoint_".
func newHealthFamily(f Family, emit func(e encoder, f *family, state func() *health.Status)) *healthFamily {
	f.Name, f.Group, f.Type = "endpoint_"+f.Name, GroupEndpoint, Gauge
	return &healthFamily{newFamily(f, []string{"endpoint"}, nil), emit}
}

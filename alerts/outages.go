package alerts

import "fmt"

// Outages are judged every 15 s, and nothing else is: what pages within three
// minutes must be cheap.
const (
	// downNow is 1 for the endpoints that are down.
	downNow = "endpoint:inference_endpoint_down:bool"
	// downSince is when each of them was found down.
	downSince = "endpoint:inference_endpoint_down:since_timestamp_seconds"
	// downTogether is those that were found down with others.
	downTogether = "endpoint:inference_endpoint_down:together"
)

// An outage is common where fewestTogether endpoints are found down within
// togetherWindow. So many by chance are rarer than the outages themselves. Those
// that follow later have an outage of their own.
const (
	fewestTogether = 3
	togetherWindow = 180 // seconds
)

// outagesGroup has what pages for an outage. What it records is evaluated before
// the alerts, at the same time.
func outagesGroup() Group {
	g := Group{Name: "inference-outages", Interval: "15s", Rules: []Rule{
		endpointDownRecorded(),
		record(downSince, `%[1]s and on ($E) %[2]s
or
%[2]s * 0 + time()`, downSince, downNow),
		record(downTogether, `(%[1]s and on ($E) %[3]s)
or
(
  (%[2]s > time() - %[4]d)
  and on ($C)
  count by ($C) (%[2]s > time() - %[4]d) >= %[5]d
)`, downTogether, downSince, downNow, togetherWindow, fewestTogether),
	}}
	g.Rules = append(g.Rules, rules(endpointDown(), manyEndpointsDown())...)
	return g
}

// endpointDownRecorded goes by the state that the exporter shows everywhere, which
// knows an outage after two failures, the second of them a confirmation. What pages
// must also last: two minutes without a success are no restart of a server. An
// endpoint that never had a success has no time of one, hence unless. Where several
// exporters probe, all that have results must agree. An endpoint that flaps is down
// while its latest probe is no success.
func endpointDownRecorded() Rule {
	return record(downNow, `min by ($E) (
  max without (state) (inference_endpoint_state{state=~"down|flapping"})
  unless on ($E, job, instance)
  (inference_endpoint_state{state=~"stale|waiting"} == 1)
) == 1
unless on ($E)
(time() - max by ($E) (inference_probe_last_success_timestamp_seconds{concurrency=""}) <= 120)
unless on ($E)
(max by ($E) (inference_probe_last_success_timestamp_seconds{concurrency=""}) >= max by ($E) (inference_probe_last_run_timestamp_seconds{concurrency=""}))`+unlessMuted)
}

// endpointDown leaves out endpoints that went down with others: see
// manyEndpointsDown. It waits half a minute for those.
func endpointDown() alert {
	return alert{
		name: "InferenceEndpointDown", severity: Critical, category: Availability,
		expr:    downNow + "\nunless on ($E)\n" + downTogether,
		lasting: "30s",
		summary: "{{ $labels.endpoint }} is down: no probe succeeds.",
		description: "No probe has succeeded for two minutes, and the latest ones failed. Users get no answers." + sinceWhen + " " +
			"Look first at the failures by reason on the board: connection, authorization and overload have different remedies.",
		board: endpointBoard,
	}
}

// manyEndpointsDown is one page for what many endpoints have in common. Its
// value is how many of them are still down.
func manyEndpointsDown() alert {
	return alert{
		name: "InferenceManyEndpointsDown", severity: Critical, category: Availability,
		expr:    "count by ($C) (" + downTogether + ")",
		lasting: "15s",
		summary: `{{ $value | printf "%.0f" }} endpoints went down together.`,
		description: fmt.Sprintf("At least %d endpoints were found down within %d minutes, so that a common cause is likely: a machine, a gateway, a zone, a network, a name or a key. "+
			"Down now:{{ range query %q }} {{ .Labels.endpoint }}{{ end }}. Look first at what these have in common.", fewestTogether, togetherWindow/60, downTogether),
		board: fleetBoard,
	}
}

// recentlyDown is the endpoints that are down or were not long ago: what was
// counted in their outage is still in the windows of other alerts.
func recentlyDown(window string) string {
	return "endpoint:inference_endpoint_down:max" + window
}

// The windows of recentlyDown: for alerts on what happens now, and for those on
// the budget of a day and of three.
const (
	soon    = "15m"
	halfDay = "12h"
)

// outagesRecorded has the recent outages. What happened under maintenance is as well
// known as an outage.
func outagesRecorded() Group {
	g := Group{Name: "inference-recorded-outages", Interval: "30s"}
	for _, window := range []string{soon, halfDay} {
		g.Rules = append(g.Rules, record(recentlyDown(window), `max by ($E) (
  max_over_time(%[1]s[%[2]s])
  or
  max_over_time(inference_endpoint_muted[%[2]s]) > 0
)`, downNow, window))
	}
	return g
}

// unlessDown leaves out endpoints whose outage explains what an alert sees.
func unlessDown(window string) string {
	return "\nunless on ($E)\n" + recentlyDown(window)
}

package alerts

import "fmt"

// Outages are judged every 15 s, and nothing else is: what pages within three
// minutes must be cheap.
const (
	// downNow is the endpoints that are down, with how many probes failed or were
	// held back because the server asked for it.
	downNow = "endpoint:inference_endpoint_down:failures"
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
func outagesGroup(o Options) Group {
	g := Group{Name: "inference-outages", Interval: "15s", Rules: []Rule{
		endpointDownRecorded(o),
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
	g.Rules = append(g.Rules, rules(endpointDown(o), manyEndpointsDown())...)
	return g
}

// endpointDownRecorded finds outages within two minutes at intervals of up to a
// minute: a failure is confirmed after 5 and 10 s, and the time of the last
// success is known to the second. An endpoint that never had one has no such
// time, hence unless. A run that is left out because the server asked to wait
// counts as a failure: the first refusal is the only probe for as long as that.
// Where the latest probe of a slow module succeeded long ago, three failures of
// others since say more, if the same exporter saw them: those of another one may
// be its own. Without a verdict now nothing is known: the exporter may have gone,
// or the endpoint have left its configuration, and both leave failures in the
// window. Bursts overload on purpose, and their verdicts are no evidence.
func endpointDownRecorded(o Options) Rule {
	return record(downNow, `(
  sum by ($E) (
    increase(inference_probe_results_total{outcome!~"success|canceled",concurrency=""}[5m])
    or
    increase(inference_probe_skipped_total{reason="backoff",concurrency=""}[5m])
  ) >= 2
  or
  sum by ($E) (endpoint:inference_probe_failures:increase%s) >= 2
)
unless on ($E)
(time() - max by ($E) (inference_probe_last_success_timestamp_seconds{concurrency=""}) <= 120)
unless on ($E)
(
  max by ($E, job, instance) (inference_probe_success{concurrency=""}) == 1
  unless on ($E, job, instance)
  sum by ($E, job, instance) (increase(inference_probe_results_total{outcome!~"success|canceled",concurrency=""}[5m])) >= 3
)
and on ($E)
max by ($E) (inference_probe_success{concurrency=""}) >= 0`+unlessMuted, duration(o.failureWindow()))
}

// endpointDown leaves out endpoints that went down with others: see
// manyEndpointsDown. It waits half a minute for those.
func endpointDown(Options) alert {
	return alert{
		name: "InferenceEndpointDown", severity: Critical, category: Availability,
		expr:    downNow + "\nunless on ($E)\n" + downTogether,
		lasting: "30s",
		summary: `{{ $labels.endpoint }} is down: no probe succeeds ({{ $value | printf "%.0f" }} failed).`,
		description: "No probe of any module has succeeded for two minutes, and the latest ones failed. Users get no answers." + sinceWhen + " " +
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

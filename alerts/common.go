package alerts

import "fmt"

// A cause that several endpoints have in common shows at each of them at another
// moment: what makes probes slower, but not all of them slow, is certain after some
// minutes at one endpoint and after twenty at the next. So it is enough that one of
// them pages, while the others are suspected.
const (
	// degradedEndpoint is the endpoints that page for slowness or failures.
	degradedEndpoint = "endpoint:inference_endpoint_degraded:bool"
	// suspected is those and the ones with less evidence.
	suspected = "endpoint:inference_endpoint_degraded:suspected"
	// suspectedSince is when each of them was first suspected.
	suspectedSince = "endpoint:inference_endpoint_degraded:since_timestamp_seconds"
	// degradedTogether is those that were suspected with others.
	degradedTogether = "endpoint:inference_endpoint_degraded:together"
)

// suspectWindow is the time, seconds, within which endpoints must become suspects
// for it to be more than chance. With half of the error budget spent by independent
// failures an endpoint becomes one in 0.01 % of such windows; where noise has a memory,
// it becomes none by so little.
const suspectWindow = 600

// degradedTogetherRecorded needs what degradedRecorded and tpotRisenRecorded record.
func degradedTogetherRecorded() []Rule {
	const paging = `slo=~"availability|ttft|tpot"`
	unlessElse := unlessDown(soon) + unlessHung + unlessMuted
	return []Rule{
		record(degradedEndpoint, `group by ($E) (
  %[1]s{%[2]s}
  or
  count_over_time(%[3]s[3m]) >= 3
)%[4]s`, degraded, paging, tpotRisen, unlessElse),
		record(suspected, `group by ($E) (
  max_over_time(module:inference_probe_slo_bad:ratio_rate5m{%[2]s}[10m])
  > on (%[3]s)
  clamp_max(%[4]g * (1 - module:inference_slo_objective:ratio), 0.5)
  and on (%[3]s)
  module:inference_probe_slo_own_bad:increase10m >= 3.5
  unless on (%[3]s)
  (%[7]s == 1)
  or
  %[5]s
)%[6]s
or
%[1]s`, degradedEndpoint, paging, ofModule, fastBurns()[0].rate, tpotRisen, unlessElse, together),
		record(suspectedSince, `%[1]s and on ($E) %[2]s
or
%[2]s * 0 + time()`, suspectedSince, suspected),
		record(degradedTogether, `(%[1]s and on ($E) %[2]s)
or
(
  (%[3]s > time() - %[5]d)
  and on ($C)
  count by ($C) (%[3]s > time() - %[5]d) >= %[6]d
  and on ($C)
  count by ($C) ((%[3]s > time() - %[5]d) and on ($E) %[4]s)
)`, degradedTogether, suspected, suspectedSince, degradedEndpoint, suspectWindow, fewestTogether),
	}
}

// unlessTogether leaves out endpoints that are slow or fail with others.
const unlessTogether = "\nunless on ($E)\n" + degradedTogether

// manyEndpointsDegraded is one page for what many endpoints have in common. It lasts
// as long as one of them would page. Its value is how many there are.
func manyEndpointsDegraded() alert {
	return alert{
		name: "InferenceManyEndpointsDegraded", severity: Critical, category: Availability,
		expr: fmt.Sprintf(`count by ($C) (%[1]s)
and on ($C)
count by ($C) (%[1]s and on ($E) %[2]s)`, degradedTogether, degradedEndpoint),
		lasting: "30s", keep: "30s",
		summary: `{{ $value | printf "%.0f" }} endpoints became slow or began to fail together.`,
		description: fmt.Sprintf("At least %d endpoints became slow or began to fail within %d minutes, so that a common cause is likely: a machine, a GPU node, a gateway, a zone or a network. "+
			"Affected now:{{ range query %q }} {{ .Labels.endpoint }}{{ end }}. Look first at what these have in common.", fewestTogether, suspectWindow/60, degradedTogether),
		board: fleetBoard,
	}
}

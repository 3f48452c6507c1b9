package alerts

import (
	"fmt"
	"slices"
	"strings"
)

// inhibition is an inhibition rule: while an alert fires that the source matches,
// those are not notified that the target matches and that have the same values of
// the labels.
type inhibition struct {
	why            string
	source, target string // matchers
	equal          []string
}

// inhibitions are what the rules cannot say by themselves. A page leaves out what
// it explains by its expression; what is left is for working hours, and alerts on
// exporters and GPUs.
func inhibitions(o Options) []inhibition {
	endpoint := append([]string{"endpoint"}, o.Keep...)
	return []inhibition{
		{
			"The critical form of an alert makes its warning redundant.",
			`severity="critical", alertname=~"Inference.+"`, `severity="warning", alertname=~"Inference.+"`,
			append(slices.Clone(endpoint), "alertname", "job", "instance", "uuid", "xid"),
		},
		{
			"A page names the endpoint: warnings on its failures and its budget add nothing.",
			`alertname=~"Inference(EndpointDown|(Availability|TTFT|TPOT)DegradedNow)", severity="critical"`,
			`alertname=~"Inference(ProbeFailing|AnswersCut|(Availability|TTFT|TPOT)(SlowBurn|DegradedNow))", severity="warning"`,
			endpoint,
		},
		{
			"The loss of all servers implies the loss of some.",
			`alertname="InferenceAllReplicasLost"`, `alertname=~"InferenceReplicaLost|InferenceReplicaLossSlowsSurvivors"`, endpoint,
		},
		{
			"Lost servers that make the others slow are lost servers.",
			`alertname="InferenceReplicaLossSlowsSurvivors"`, `alertname="InferenceReplicaLost"`, endpoint,
		},
		{
			"A queue that stays full has grown.",
			`alertname="InferenceQueueSaturated"`, `alertname="InferenceQueueGrowing"`, endpoint,
		},
		{
			"Alerts on an exporter itself and on its GPUs, from before it went down. Alerts on\n  # endpoints are not muted: another exporter may probe them.",
			`alertname="InferenceExporterDown"`, `alertname!="InferenceExporterDown", category=~"exporter|gpu"`,
			[]string{"job", "instance"},
		},
		{
			"While the driver does not answer, alerts on its GPUs are outdated.",
			`alertname="InferenceGPUDriverStuck"`, `alertname!="InferenceGPUDriverStuck", category="gpu", severity="warning"`,
			[]string{"job", "instance"},
		},
	}
}

// Alertmanager returns a configuration of Alertmanager for the alerts: routes and
// inhibitions, with receivers that are to be filled in.
func Alertmanager(o Options) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, routes, strings.Join(append(append([]string{"endpoint", "gateway"}, o.Keep...), "instance"), ", "))
	b.WriteString("\ninhibit_rules:\n")
	for _, i := range inhibitions(o) {
		fmt.Fprintf(&b, "  # %s\n  - source_matchers: [%s]\n    target_matchers: [%s]\n    equal: [%s]\n", i.why, i.source, i.target, strings.Join(i.equal, ", "))
	}
	b.WriteString(receivers)
	return []byte(b.String())
}

// routes say who is notified. The format takes the labels by which alerts are
// grouped.
const routes = `# Alertmanager for the alerts of inference_exporter: which alerts go to which
# receiver, and which are not notified while a larger problem is known.
# Made by inference_exporter rules --format=alertmanager.
# amtool check-config alertmanager.yml
#
# Labels to route by:
#   severity  critical: a person, now; warning: a person, in working hours;
#             info: nobody; none: the watchdog
#   category  availability, latency, saturation, quality, gpu, exporter
#   endpoint, gateway, and the labels of your configuration

route:
  receiver: chat
  # All alerts of one endpoint, of one gateway, or of one machine, are one notification.
  group_by: [%s]
  group_wait: 15s
  group_interval: 5m
  repeat_interval: 4h
  routes:
    # Fires as long as Prometheus and Alertmanager work. Its receiver raises an
    # alarm when it receives nothing.
    - matchers: [severity="none"]
      receiver: watchdog
      group_wait: 0s
      group_interval: 1m
      repeat_interval: 1m
    - matchers: [severity="critical"]
      receiver: pager
      # The end of a page is known within half a minute.
      group_interval: 30s
      repeat_interval: 4h
      routes:
        - matchers: [category="gpu"]
          receiver: hardware-pager
    - matchers: [severity="warning"]
      receiver: chat
      routes:
        - matchers: [category="gpu"]
          receiver: hardware-chat
    - matchers: [severity="info"]
      receiver: nobody
`

const receivers = `
  # InferenceMeasurementSuspect mutes nothing: latencies of such probes count for no
  # objective. It is about one exporter (job, instance), and latency alerts are about
  # an endpoint, whichever exporters probe it.

# Configure each: pagerduty_configs, slack_configs, webhook_configs and so on. As
# they are, Alertmanager shows the alerts on its page and notifies nobody.
receivers:
  - name: pager
  - name: chat
  - name: hardware-pager
  - name: hardware-chat
  - name: watchdog
  - name: nobody
`

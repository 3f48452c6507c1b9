package alerts

import "fmt"

// rememberedEndpoints is the endpoints of each exporter. While an exporter does
// not answer it goes on with what it recorded before, so that it is known whose
// endpoints nobody watches.
func rememberedEndpoints() Rule {
	return record("instance:inference_endpoint_info:last",
		`group by (job, instance, $K) (inference_endpoint_info)
or
(
  instance:inference_endpoint_info:last
  and on (job, instance)
  up{%s} == 0
)`, jobs)
}

// unwatched is the endpoints that an exporter has or had and that no exporter
// has now.
const unwatched = `(
  instance:inference_endpoint_info:last
  unless on ($K)
  group by ($K) (inference_endpoint_info)
)`

// exporterDown pages if endpoints are left that nobody watches. What an exporter
// watched is not known if it never answered, or Prometheus began after it went
// away: that pages as well.
func exporterDown() alert {
	return alert{
		name: "InferenceExporterDown", severity: Critical, category: Exporter,
		expr: fmt.Sprintf(`(
  up{%[1]s} == 0
  unless on (job, instance)
  (
    instance:inference_endpoint_info:last
    unless on (job, instance)
    %[2]s
  )
)
or
absent(up{%[1]s})`, jobs, unwatched),
		lasting: "3m",
		summary: "{{ with $labels.instance }}The exporter {{ . }} is down{{ else }}There is no exporter to scrape{{ end }}: its endpoints are not watched.",
		description: "Prometheus cannot scrape the exporter, or has no target for it (jobs named inference_exporter or inference-exporter). All alerts that rest on it are silent. " +
			"Look first at the targets page of Prometheus and at the exporter's log.",
		board: selfBoard,
	}
}

// replicaDown is an exporter whose endpoints others watch: nobody is blind.
func replicaDown() alert {
	return alert{
		name: "InferenceExporterDown", severity: Warning, category: Exporter,
		expr: fmt.Sprintf(`up{%s} == 0
and on (job, instance)
instance:inference_endpoint_info:last
unless on (job, instance)
%s`, jobs, unwatched),
		lasting: "3m",
		summary: "The exporter {{ $labels.instance }} is down; others watch its endpoints.",
		description: "Prometheus cannot scrape the exporter. Other exporters probe all of its endpoints, so that nothing goes unnoticed until one of them is lost too. " +
			"Look first at the targets page of Prometheus and at the exporter's log.",
		board: selfBoard,
	}
}

// ofProber stands in expressions for the labels of what one exporter tells of a
// module of an endpoint.
const ofProber = ofEach + ", job, instance"

// failedShare is the share of the probes of half an hour that failed, of each
// exporter that still tells of the module: one that went away disagrees with
// nobody.
const failedShare = `(
    sum by (%[1]s) (increase(inference_probe_results_total{outcome!~"success|canceled",concurrency=""}[30m]))
    / on (%[1]s)
    (sum by (%[1]s) (increase(inference_probe_results_total{outcome!="canceled",concurrency=""}[30m])) >= 4)
    and on (%[1]s)
    max by (%[1]s) (inference_probe_success{concurrency=""}) >= 0
  )`

// probersDisagree names the exporter that fails where another one does not. If
// it goes on failing its probes use up the error budget as well, and may page:
// its users may have the same trouble.
func probersDisagree() alert {
	return alert{
		name: "InferenceProbersDisagree", severity: Warning, category: Exporter,
		expr: fmt.Sprintf(`(
  `+failedShare+` > 0.25
  and on (%[2]s)
  `+failedShare+` < 0.05
)
and on (%[1]s)
sum by (%[1]s) (increase(inference_probe_results_total{outcome!~"success|canceled",concurrency=""}[30m])) >= 4
and on (%[1]s)
sum by (%[1]s) (increase(inference_probe_results_total{outcome!~"success|canceled",concurrency=""}[10m])) > 0`, ofProber, ofEach),
		lasting: "10m",
		summary: "{{ $value | humanizePercentage }} of the probes of {{ $labels.endpoint }} by {{ $labels.instance }} fail ({{ $labels.module }}), those of another prober do not.",
		description: "Of two exporters that ask the endpoint the same, one fails in more than a quarter of the probes of 30 minutes and another one in less than a twentieth. Either the first one's own path or credentials are broken, or users at its place have the same trouble. " +
			"Look first at the failures by prober on the board.",
		board: endpointBoard,
	}
}

// shards is how many shards there should be, as each set says. PromQL reads no
// number from a label but from le: the quantile 1 of a histogram whose
// observations are all in one bucket is the upper bound of the bucket.
const shards = `histogram_quantile(1,
  label_replace(group by (job, count) (inference_exporter_shard_info), "le", "$1", "count", "(.+)")
  or
  label_replace(group by (job, count) (inference_exporter_shard_info), "le", "+Inf", "count", ".+")
)`

// shardMissing goes by what the shards that are there say. Replicas of a shard
// count once. While their number is changed there are two numbers, and nothing is
// missed if either of them is complete.
func shardMissing() alert {
	const there = `count by (job, count) (group by (job, count, index) (inference_exporter_shard_info))`
	return alert{
		name: "InferenceShardMissing", severity: Critical, category: Exporter, labels: map[string]string{"cause": "missing"},
		expr: there + "\n< on (job, count)\n" + shards +
			"\nunless on (job)\n(" + there + "\n>= on (job, count)\n" + shards + ")",
		lasting: "10m",
		summary: "Only {{ $value }} of the {{ $labels.count }} shards of {{ $labels.job }} are there: the endpoints of the others are not watched.",
		description: "Each shard probes its own part of the endpoints. No other alert tells of one that was never started, or that Prometheus has no target for. " +
			"Look first at the shards on the board, to see which number is not there.",
		board: selfBoard,
	}
}

func shardsDisagree() alert {
	return alert{
		name: "InferenceShardMissing", severity: Warning, category: Exporter, labels: map[string]string{"cause": "count"},
		expr:    "count by (job) (group by (job, count) (inference_exporter_shard_info)) > 1",
		lasting: "10m",
		summary: "The shards of {{ $labels.job }} do not agree on how many they are: there are {{ $value }} numbers.",
		description: "Shards that reckon with different numbers divide the endpoints differently: some are probed twice, and some not at all. " +
			"Look first at the shards on the board: some exporters still run with old flags.",
		board: selfBoard,
	}
}

package main

import (
	"slices"
	"strings"
)

// noProber is shown where there is no data of probes: that is not good news.
const noProber = "no probe ended in this time, or none succeeded"

// noEndpoint is shown where there is a value for each endpoint that is known.
const noEndpoint = "no exporter has such an endpoint"

// noneOfProbes is shown where there may be no series because nothing has happened yet.
const noneOfProbes = "none, if there was a probe"

func datasourceVariable() Variable { return Variable{Name: "datasource", Label: "Data source"} }

func jobVariable() Variable {
	return Variable{Name: "job", Label: "Job", Query: "label_values(inference_exporter_build_info, job)"}
}

func modelVariable() Variable {
	return Variable{Name: "model", Label: "Model", OrNone: true, Query: `label_values(inference_endpoint_info{job=~"$job"}, model)`}
}

func endpointVariable(single bool) Variable {
	return Variable{
		Name: "endpoint", Label: "Endpoint", Single: single,
		Query: `label_values(inference_endpoint_info{job=~"$job",model=~"$model"}, endpoint)`,
	}
}

func machineVariable() Variable {
	return Variable{Name: "instance", Label: "Instance", Query: `label_values(inference_gpu_state{job=~"$job"}, instance)`}
}

func gpuVariable() Variable {
	return Variable{Name: "gpu", Label: "GPU", Query: `label_values(inference_gpu_device_up{job=~"$job",instance=~"$instance"}, gpu)`}
}

func proberVariable() Variable {
	return Variable{Name: "instance", Label: "Instance", Query: `label_values(inference_exporter_build_info{job=~"$job"}, instance)`}
}

// alertsFiring is when each alert that fires now became active. The first of
// several that differ in other labels counts: Grafana draws a value that goes back
// as a region, and the latest of them goes back as they come and go.
func alertsFiring(matchers string) string {
	const by = "alertname, severity, endpoint, instance, gpu"
	return "min by (" + by + ") (ALERTS_FOR_STATE{" + matchers + "}) and on (" + by + `) ALERTS{alertstate="firing",` + matchers + "}"
}

// alertMark shows when the alerts of the chosen endpoints became active.
func alertMark() Mark {
	return Mark{
		Name: "Firing alerts", Color: "red", Title: "{{alertname}}", Text: "{{endpoint}}", Tags: "severity",
		Expr: alertsFiring(`alertname=~"Inference.*",endpoint=~"$endpoint"`),
	}
}

// exporterAlertMark shows when the alerts of the chosen exporters became active.
func exporterAlertMark() Mark {
	return Mark{
		Name: "Firing alerts", Color: "red", Title: "{{alertname}}", Text: "{{instance}}", Tags: "severity",
		Expr: alertsFiring(`alertname=~"Inference.*",instance=~"$instance"`),
	}
}

// gpuAlertMark shows when the alerts of the chosen GPUs, and of their drivers,
// became active.
func gpuAlertMark() Mark {
	return Mark{
		Name: "Firing alerts", Color: "red", Title: "{{alertname}}", Text: "{{instance}} {{gpu}}", Tags: "severity",
		Expr: alertsFiring(`alertname=~"InferenceGPU.*",instance=~"$instance",gpu=~"|$gpu"`),
	}
}

// changeMark shows when what should stay the same changed.
func changeMark() Mark {
	return Mark{
		Name: "Fingerprint changes", Color: "orange", Title: "{{source}} changed", Text: "{{endpoint}} {{module}}", Tags: "source",
		Expr: "min by (endpoint, module, source) (" + ofEndpoint.of("inference_probe_identity_last_change_timestamp_seconds") + ")",
	}
}

// stepMark shows since when latencies or failures are at another level.
func stepMark() Mark {
	return Mark{
		Name: "Steps", Color: "yellow", Title: "{{metric}} changed for good", Text: "{{endpoint}} {{module}} {{prefix}}", Tags: "metric",
		Expr: "min by (endpoint, module, prefix, metric) (" + ofEndpoint.of("inference_probe_step_timestamp_seconds") + ")",
	}
}

// serverMark shows when a server restarted: the minute in which its counters
// began again. The subquery has the same minutes at each step of the board.
func serverMark() Mark {
	return Mark{
		Name: "Server restarts", Color: "blue", Title: "server restarted", Text: "{{endpoint}} {{server}}", Tags: "endpoint",
		Expr: "min_over_time((time() + 0 * (max by (endpoint, server) (resets(" + ofEndpoint.of("inference_server_generation_tokens_total") + "[2m])) > 0))[30m:1m])",
	}
}

// reloadMark shows when an exporter loaded another configuration: later than at
// its start.
func reloadMark() Mark {
	return Mark{
		Name: "Configuration reloaded", Color: "green", Title: "configuration reloaded", Text: "{{instance}}", Tags: "job",
		Expr: ofJob.of("inference_exporter_config_last_reload_success_timestamp_seconds") +
			" > on (job, instance) group_left () (" + ofJob.of("process_start_time_seconds") + " + 60)",
	}
}

// exporterMark shows when an exporter started.
func exporterMark() Mark {
	return Mark{
		Name: "Exporter restarts", Color: "purple", Title: "exporter restarted", Text: "{{instance}}", Tags: "job",
		Expr: ofJob.of("process_start_time_seconds"),
	}
}

// proberMark shows when the exporters of the chosen endpoints started.
func proberMark() Mark {
	m := exporterMark()
	m.Expr += " and on (job, instance) " + ofEndpoint.of("inference_endpoint_info")
	return m
}

// off turns marks off until the reader turns them on: those of many endpoints
// cover the panels.
func off(marks ...Mark) []Mark {
	for i := range marks {
		marks[i].Off = true
	}
	return marks
}

// Identifiers of the boards.
const (
	uidFleet    = "ie-fleet"
	uidEndpoint = "ie-endpoint"
	uidEngine   = "ie-engine"
	uidGPU      = "ie-gpu"
	uidCapacity = "ie-capacity"
	uidSelf     = "ie-self"
)

// runbooks is where the runbook of each alert lies.
const runbooks = "https://github.com/inference-exporter/inference_exporter/blob/main/docs/runbooks/"

// boardTag marks the boards of this set; the links at the top go by it.
const boardTag = "inference-exporter"

// kept are the parts of a link that every board takes.
const kept = "${datasource:queryparam}&${job:queryparam}&${__url_time_range}"

// fromSeries links a series with the label endpoint to a board. The endpoint is
// enough: its model may not be known, and a link with an empty model leads to an
// empty board.
func fromSeries(uid, title string) Link {
	return Link{title, "/d/" + uid + "?" + kept + "&var-endpoint=${__field.labels.endpoint}"}
}

// fromRow links a row of a table with the column endpoint to a board.
func fromRow(uid, title string) Link {
	return Link{title, "/d/" + uid + "?" + kept + "&var-endpoint=${__data.fields.endpoint}"}
}

// fromBoard links a panel to a board with the endpoint of this one.
func fromBoard(uid, title string) Link {
	return Link{title, "/d/" + uid + "?" + kept + "&${endpoint:queryparam}"}
}

// toBoard links a board to another one, with the values of the variables that
// both have. A variable of which one board allows all values and the other one
// does not is none of these.
func toBoard(from, to Board) Link {
	var shared []string
	for _, v := range from.Variables {
		if slices.Contains(to.Variables, v) {
			shared = append(shared, "${"+v.Name+":queryparam}")
		}
	}
	return Link{strings.TrimPrefix(to.Title, "Inference / "), "/d/" + to.UID + "?" + strings.Join(shared, "&")}
}

// gpuFromRow links a row of a table with the columns instance and gpu to the
// board of GPUs.
func gpuFromRow() Link {
	return Link{"GPU", "/d/" + uidGPU + "?${datasource:queryparam}&${__url_time_range}&var-job=${__data.fields.job}&var-instance=${__data.fields.instance}&var-gpu=${__data.fields.gpu}"}
}

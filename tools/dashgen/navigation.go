package main

// noProber stands where there is no data of probes: that is not good news.
const noProber = "no data: is the prober up?"

func datasourceVariable() Variable { return Variable{Name: "datasource", Label: "Data source"} }

func jobVariable() Variable {
	return Variable{Name: "job", Label: "Job", Query: "label_values(inference_exporter_build_info, job)"}
}

func modelVariable() Variable {
	return Variable{Name: "model", Label: "Model", Query: `label_values(inference_endpoint_info{job=~"$job"}, model)`}
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

// alertMark shows when alerts fire: those of the endpoints chosen and those of
// no endpoint.
func alertMark() Mark {
	return Mark{
		Name: "Firing alerts", Color: "red", Title: "{{alertname}}", Text: "{{endpoint}} {{model}} {{instance}}", Tags: "severity",
		Expr: `ALERTS{alertstate="firing",alertname=~"Inference.*",alertname!="InferenceWatchdog",model=~"|$model",endpoint=~"|$endpoint"}`,
	}
}

// allAlertsMark is alertMark for a board without endpoints.
func allAlertsMark() Mark {
	return Mark{
		Name: "Firing alerts", Color: "red", Title: "{{alertname}}", Text: "{{endpoint}} {{model}} {{instance}}", Tags: "severity",
		Expr: `ALERTS{alertstate="firing",alertname=~"Inference.*",alertname!="InferenceWatchdog"}`,
	}
}

// changeMark shows when what should stay the same changed.
func changeMark() Mark {
	return Mark{
		Name: "Fingerprint changes", Color: "orange", Title: "{{source}} changed", Text: "{{endpoint}} {{module}}", Tags: "source",
		Expr: "max by (endpoint, module, source) (increase(" + ofEndpoint.of("inference_probe_fingerprint_changes_total") + "[$__rate_interval])) > 0",
	}
}

// serverMark shows when a server restarted: its counters began again.
func serverMark() Mark {
	return Mark{
		Name: "Server restarts", Color: "blue", Title: "server restarted", Text: "{{endpoint}} {{server}}", Tags: "endpoint",
		Expr: "max by (endpoint, server) (resets(" + ofEndpoint.of("inference_server_generation_tokens_total") + "[$__rate_interval])) > 0",
	}
}

// reloadMark shows when an exporter took over another configuration.
func reloadMark() Mark {
	return Mark{
		Name: "Configuration reloaded", Color: "green", Title: "configuration reloaded", Text: "{{instance}}", Tags: "job",
		Expr: "changes(" + ofJob.of("inference_exporter_config_last_reload_success_timestamp_seconds") + "[$__rate_interval]) > 0",
	}
}

// exporterMark shows when an exporter restarted.
func exporterMark() Mark {
	return Mark{
		Name: "Exporter restarts", Color: "purple", Title: "exporter restarted", Text: "{{instance}}", Tags: "job",
		Expr: "changes(" + ofJob.of("process_start_time_seconds") + "[$__rate_interval]) > 0",
	}
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

// kept are the parts of a link that go on to the next board.
const kept = "${datasource:queryparam}&${job:queryparam}&${__url_time_range}"

// fromSeries links a series with the labels endpoint and model to a board.
func fromSeries(uid, title string) Link {
	return Link{title, "/d/" + uid + "?" + kept + "&var-endpoint=${__field.labels.endpoint}&var-model=${__field.labels.model}"}
}

// fromRow links a row of a table with the columns endpoint and model to a
// board.
func fromRow(uid, title string) Link {
	return Link{title, "/d/" + uid + "?" + kept + "&var-endpoint=${__data.fields.endpoint}&var-model=${__data.fields.model}"}
}

// fromBoard links a panel to a board with the variables of this one.
func fromBoard(uid, title string) Link {
	return Link{title, "/d/" + uid + "?" + kept + "&${endpoint:queryparam}&${model:queryparam}"}
}

// gpuFromRow links a row of a table with the columns instance and gpu to the
// board of GPUs.
func gpuFromRow() Link {
	return Link{"GPU", "/d/" + uidGPU + "?${datasource:queryparam}&${__url_time_range}&var-job=${__data.fields.job}&var-instance=${__data.fields.instance}&var-gpu=${__data.fields.gpu}"}
}

// runbookFromRow links a row of a table of alerts to the alert's runbook.
func runbookFromRow() Link {
	return Link{"Runbook", runbooks + "${__data.fields.alertname}.md"}
}

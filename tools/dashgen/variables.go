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

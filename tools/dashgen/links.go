package main

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

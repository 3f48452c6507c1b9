package alerts

// Severity says who is to be told, and how soon.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // a person, now
	Warning  Severity = "warning"  // a person, in working hours
	Info     Severity = "info"     // whoever looks
	None     Severity = "none"     // a machine
)

// Category says what an alert is about, to route and to inhibit by it.
type Category string

// The categories.
const (
	Availability Category = "availability"
	Latency      Category = "latency"
	Saturation   Category = "saturation"
	Quality      Category = "quality"
	GPU          Category = "gpu"
	Exporter     Category = "exporter"
)

// Where an alert leads to.
const (
	runbooks = "https://github.com/inference-exporter/inference_exporter/blob/main/docs/runbooks/"

	endpointBoard = "/d/ie-endpoint?var-endpoint={{ $labels.endpoint | urlquery }}"
	engineBoard   = "/d/ie-engine?var-endpoint={{ $labels.endpoint | urlquery }}"
	gpuBoard      = "/d/ie-gpu?var-instance={{ $labels.instance | urlquery }}"
	capacityBoard = "/d/ie-capacity?var-endpoint={{ $labels.endpoint | urlquery }}"
	selfBoard     = "/d/ie-self"
)

// alert is an alert rule as it is written in this package.
type alert struct {
	name     string
	severity Severity
	category Category
	// labels are further labels, which tell rules of one name apart.
	labels map[string]string
	expr   string
	// lasting and keep are for and keep_firing_for.
	lasting, keep string
	// summary is one line with who and how much. description says what is
	// measured, why it matters and where to look first.
	summary, description string
	board                string
}

// rule returns the rule as Prometheus wants it.
func (a alert) rule() Rule {
	labels := map[string]string{"severity": string(a.severity), "category": string(a.category)}
	for name, value := range a.labels {
		labels[name] = value
	}
	return Rule{
		Alert: a.name, Expr: a.expr, For: a.lasting, KeepFiringFor: a.keep,
		Labels: labels,
		Annotations: map[string]string{
			"summary": a.summary, "description": a.description,
			"runbook_url": runbooks + a.name + ".md", "dashboard": a.board,
		},
	}
}

// rules returns the rules of alerts.
func rules(alerts ...alert) []Rule {
	all := make([]Rule, len(alerts))
	for i, a := range alerts {
		all[i] = a.rule()
	}
	return all
}

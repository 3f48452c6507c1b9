// Package alerts makes the recording and alert rules for Prometheus. The files
// recording.yml and alerts.yml beside it are its output for the default
// configuration.
//
// What an alert asks for follows from few probes: the share of bad ones says
// little without their number, so every rule on a share has a smallest number.
// Objectives and thresholds are read from the exporter's own metrics, so that
// the same rules serve all of them.
package alerts

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Options are what rules depend on besides the metrics themselves.
type Options struct {
	// Labels are the names of the configured labels that distinguish endpoints,
	// on top of endpoint and model. Series that differ in other labels, such
	// as those of several exporters, are added up.
	Labels []string
	// Modules has the times from one probe to the next by the names of the
	// modules in use.
	Modules map[string]time.Duration
}

// Default returns the options for the default configuration.
func Default() Options {
	return Options{Modules: map[string]time.Duration{"interactive": 30 * time.Second}}
}

// Group is a list of rules that Prometheus evaluates together, in this order.
type Group struct {
	Name     string `yaml:"name"`
	Interval string `yaml:"interval"`
	Rules    []Rule `yaml:"rules"`
}

// Rule is an alert rule, or a recording rule if Record is set.
type Rule struct {
	Record        string            `yaml:"record,omitempty"`
	Alert         string            `yaml:"alert,omitempty"`
	Expr          string            `yaml:"expr"`
	For           string            `yaml:"for,omitempty"`
	KeepFiringFor string            `yaml:"keep_firing_for,omitempty"`
	Labels        map[string]string `yaml:"labels,omitempty"`
	Annotations   map[string]string `yaml:"annotations,omitempty"`
}

// Alerts returns the alert rules. They need those of Recording.
func Alerts(o Options) []Group {
	return identify(o, []Group{
		availabilityGroup(o),
		objectivesGroup(),
		latencyGroup(o),
		serversGroup(),
		workloadsGroup(),
		gpuGroup(),
		exporterGroup(o),
	})
}

// identity is the placeholder in expressions for the labels that identify an
// endpoint.
const identity = "$K"

// identify puts the names of the labels that identify an endpoint in place.
func identify(o Options, groups []Group) []Group {
	k := strings.Join(append([]string{"endpoint", "model"}, o.Labels...), ", ")
	for _, g := range groups {
		for i := range g.Rules {
			g.Rules[i].Expr = strings.ReplaceAll(strings.TrimSpace(g.Rules[i].Expr), identity, k)
		}
	}
	return groups
}

// Marshal renders groups as a rule file that begins with limits, one comment
// each; see Limits.
func Marshal(groups []Group, limits ...string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Made by inference_exporter rules: change the configuration, not this file.\n")
	for _, limit := range limits {
		b.WriteString("# " + limit + "\n")
	}
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(map[string][]Group{"groups": groups})
	if err != nil {
		return nil, fmt.Errorf("render rules: %w", err)
	}
	return b.Bytes(), nil
}

// duration renders d as Prometheus reads it.
func duration(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	default:
		return fmt.Sprintf("%ds", d/time.Second)
	}
}

// Severity says who is notified, and how soon.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // a person, now
	Warning  Severity = "warning"  // a person, in working hours
	Info     Severity = "info"     // shown, without notification
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
	// labels are further labels, which distinguish rules of one name.
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

// Package alerts makes the recording and alert rules for Prometheus. The files recording.yml and alerts.yml beside it
// are its output for the default configuration and the default set of rules; each other set has a file of its name.
//
// The rules are rows in rows/*.yml, a file for each set. What an alert asks for follows from few probes: the share of
// bad ones says little without their number, so every rule on a share has a smallest number. Objectives and thresholds
// are read from the exporter's own metrics, so that the same rules serve all of them.
package alerts

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Options are what rules depend on besides the metrics themselves.
type Options struct {
	// Labels are the names of the labels that distinguish endpoints on top of their name: those of the configuration.
	// Series that differ in other labels, such as those of several exporters, are added up.
	Labels []string
	// Keep are the names of labels that Prometheus gives to whole exporters and
	// that distinguish endpoints too, such as one for the cluster.
	Keep []string
	// Job is a regular expression for the names of the scrape jobs of exporters. Empty is DefaultJob.
	Job string
	// GrafanaURL is put before the paths of dashboards, and ExporterURL before those of the exporter's pages. Empty
	// leaves paths as they are, and the links to the exporter out.
	GrafanaURL, ExporterURL string
	// RunbookURL is put before the names of the pages of runbooks. Empty is DefaultRunbookURL.
	RunbookURL string
	// Sets are the names of the sets of rules beside the default one, of those that Sets returns.
	Sets []string
	// Modules has the times from one probe to the next by the names of the modules in use.
	Modules map[string]time.Duration
}

// Validate reports a label or an expression that would make rules invalid.
func (o Options) Validate() error {
	for _, name := range o.Keep {
		if !model.LegacyValidation.IsValidLabelName(name) {
			return fmt.Errorf("label %q is no label name of Prometheus", name)
		}
	}
	for _, name := range o.Sets {
		if !slices.Contains(Sets(), name) {
			return fmt.Errorf("no set of rules %q; sets: %s", name, strings.Join(Sets(), ", "))
		}
	}
	if _, err := regexp.Compile(o.Job); err != nil {
		return fmt.Errorf("regular expression for jobs: %w", err)
	}
	return nil
}

// DefaultJob matches the names that scrape jobs of this exporter are expected to have.
const DefaultJob = "inference[-_]exporter.*"

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

// defaultSet is the set that is always there.
const defaultSet = "default"

// Sets returns the names of the sets of rules that are asked for. Each brings what its alerts need beside the default set.
func Sets() []string { return []string{"servers", "gpu", "quality", "budgets"} }

// Alerts returns the alert rules. They need those of Recording.
func Alerts(o Options) []Group {
	return groupsOf(o, func(s *source) []groupRows { return s.Alerts })
}

// Recording returns the recording rules, for alerts and dashboards.
func Recording(o Options) []Group {
	return groupsOf(o, func(s *source) []groupRows { return s.Recording })
}

func groupsOf(o Options, rows func(*source) []groupRows) (all []Group) {
	for _, set := range append([]string{defaultSet}, o.Sets...) {
		s := readRows(o, set)
		all = append(all, s.made(rows(s))...)
	}
	return all
}

// Placeholders in expressions, as the head of rows/shared.yml describes them.
const (
	identity = "$K"
	about    = "$E"
	cluster  = "$C"
	scrapes  = "$J"
)

// placeholders returns what puts the names of labels and jobs in place.
func (o Options) placeholders() *strings.Replacer {
	names := append(slices.Clone(o.Keep), o.Labels...)
	list := func(first ...string) string { return once(append(first, names...)) }
	return strings.NewReplacer(
		identity, list("endpoint", "model"),
		about, list("endpoint"),
		cluster, strings.Join(o.Keep, ", "),
		scrapes, "job=~"+strconv.Quote(cmp.Or(o.Job, DefaultJob)),
	)
}

// withoutRepeats leaves a label that a list names twice in it once: one that is
// kept may be one by which rules group anyway.
func withoutRepeats(expr string) string {
	return labelList.ReplaceAllStringFunc(expr, func(list string) string {
		open := strings.Index(list, "(") + 1
		return list[:open] + once(strings.Split(list[open:len(list)-1], ",")) + ")"
	})
}

func once(names []string) string {
	var all []string
	for _, name := range names {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, ", ")
}

// labelList matches a list of labels of an aggregation or of a join.
var labelList = regexp.MustCompile(`\b(?:by|on|group_left|group_right|without) ?\([a-zA-Z0-9_, ]*\)`)

// Marshal renders groups as a rule file.
func Marshal(groups []Group) ([]byte, error) {
	return render(map[string][]Group{"groups": groups})
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

// DefaultRunbookURL is where the pages of the runbooks are.
const DefaultRunbookURL = "https://github.com/inference-exporter/inference_exporter/blob/main/docs/runbooks/"

// explainPath is the exporter's own account of an endpoint: its likely cause.
const explainPath = "/api/v1/endpoints/{{ $labels.endpoint | urlquery }}/explain"

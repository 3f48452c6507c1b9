package alerts

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// SLO is one objective of the probes of an endpoint with a module, for tools that make
// rules of their own.
type SLO struct {
	// Endpoint, Module and SLO are the values of the labels of its counters.
	Endpoint, Module, SLO string
	// Objective is the share of the probes that must be good, between 0 and 1.
	Objective float64
	// Good is what a good probe does, in words: "succeed".
	Good string
}

// sloWindow is the period of the error budgets, as that of the status page.
const sloWindow = "30d"

// sloAlert is the name of the alerts that other tools make.
const sloAlert = "InferenceErrorBudgetBurn"

// sloService is the service that the SLOs belong to, where a tool has services.
const sloService = "inference"

// badCounter and totalCounter count the probes that objectives judge.
const (
	badCounter   = "inference_probe_slo_bad_total"
	totalCounter = "inference_probe_slo_eligible_total"
)

// bad and total are the counters of the SLO, as selectors.
func (s *SLO) bad() string   { return s.selector(badCounter, "slo="+strconv.Quote(s.SLO)) }
func (s *SLO) total() string { return s.selector(totalCounter, "slo="+strconv.Quote(s.SLO)) }

// selector selects the series of a counter for the endpoint and the module, and by
// matchers of the label slo. Two braces would begin an action of a template.
func (s *SLO) selector(counter, bySLO string) string {
	quoted := func(value string) string { return strings.ReplaceAll(strconv.Quote(value), "{{", `{\x7b`) }
	return fmt.Sprintf("%s{endpoint=%s,module=%s,%s}", counter, quoted(s.Endpoint), quoted(s.Module), bySLO)
}

// notOthers matches the label slo by excluding the other objectives that the exporter
// counts. Pyrra gives the name of its object as the label slo to what it records, and
// reads that by its own matcher and those of the counter: they must select both.
func (s *SLO) notOthers() string {
	var matchers []string
	for _, other := range []string{"availability", "ttft", "tpot", "e2e", "fluidity"} {
		if other != s.SLO {
			matchers = append(matchers, "slo!="+strconv.Quote(other))
		}
	}
	return strings.Join(matchers, ",")
}

// percent is the objective in percent, without the noise of binary fractions.
func (s *SLO) percent() float64 { return math.Round(s.Objective*1e10) / 1e8 }

func (s *SLO) description() string {
	return fmt.Sprintf("%s %% of the probes of %s with %s %s.", strconv.FormatFloat(s.percent(), 'f', -1, 64), s.Endpoint, s.Module, s.Good)
}

// category is that of the alerts on the SLO, by which they are routed.
func (s *SLO) category() Category {
	if s.SLO == "availability" {
		return Availability
	}
	return Latency
}

// maxSLOName is how long a name may be: that of a label in DNS, which Kubernetes and
// OpenSLO want. OpenSLO has the same limit for displayed names.
const maxSLOName = 63

var notInName = regexp.MustCompile("[^a-z0-9]+")

// name is the name of the SLO, unique among all of a configuration: where the parts are
// not in it as they are, a hash of them is.
func (s *SLO) name() string {
	parts := s.Endpoint + "-" + s.Module + "-" + s.SLO
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(parts), "-"), "-")
	if name == parts && len(name) <= maxSLOName && !strings.Contains(s.Module, "-") {
		return name
	}
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%q %q %q", s.Endpoint, s.Module, s.SLO)
	tail := fmt.Sprintf("-%08x", hash.Sum32())
	return strings.TrimLeft(strings.TrimRight(name[:min(len(name), maxSLOName-len(tail))], "-")+tail, "-")
}

// slothAlert is what Sloth adds to the alerts of one severity.
type slothAlert struct {
	Labels map[string]string `yaml:"labels"`
}

// slothSLO is an SLO in the specification prometheus/v1 of Sloth.
type slothSLO struct {
	Name        string            `yaml:"name"`
	Objective   float64           `yaml:"objective"`
	Description string            `yaml:"description"`
	Labels      map[string]string `yaml:"labels"`
	SLI         struct {
		Events struct {
			ErrorQuery string `yaml:"error_query"`
			TotalQuery string `yaml:"total_query"`
		} `yaml:"events"`
	} `yaml:"sli"`
	Alerting struct {
		Name        string            `yaml:"name"`
		Labels      map[string]string `yaml:"labels"`
		PageAlert   slothAlert        `yaml:"page_alert"`
		TicketAlert slothAlert        `yaml:"ticket_alert"`
	} `yaml:"alerting"`
}

// Sloth returns SLOs for Sloth, by its specification prometheus/v1.
func Sloth(slos []SLO) ([]byte, error) {
	spec := struct {
		Version string     `yaml:"version"`
		Service string     `yaml:"service"`
		SLOs    []slothSLO `yaml:"slos"`
	}{Version: "prometheus/v1", Service: sloService}
	rate := func(selector string) string { return "sum(rate(" + selector + "[{{.window}}]))" }
	// Without probes there is no share: it would be NaN, and with it that of the next 30
	// days, which Sloth averages.
	some := func(rate string) string { return rate + " > 0" }
	for _, s := range slos {
		out := slothSLO{
			Name: s.name(), Objective: s.percent(), Description: s.description(),
			Labels: map[string]string{"endpoint": s.Endpoint, "module": s.Module, "slo": s.SLO},
		}
		out.SLI.Events.ErrorQuery, out.SLI.Events.TotalQuery = rate(s.bad()), some(rate(s.total()))
		out.Alerting.Name = sloAlert
		out.Alerting.Labels = map[string]string{"category": string(s.category())}
		out.Alerting.PageAlert = slothAlert{map[string]string{"severity": string(Critical)}}
		out.Alerting.TicketAlert = slothAlert{map[string]string{"severity": string(Warning)}}
		spec.SLOs = append(spec.SLOs, out)
	}
	return documents("sloth", spec)
}

// object is an object as Kubernetes and OpenSLO have them.
type object struct {
	APIVersion string         `yaml:"apiVersion"`
	Kind       string         `yaml:"kind"`
	Metadata   map[string]any `yaml:"metadata"`
	Spec       any            `yaml:"spec"`
}

// Pyrra returns SLOs for Pyrra, an object each.
func Pyrra(slos []SLO) ([]byte, error) {
	type metric struct {
		Metric string `yaml:"metric"`
	}
	type ratio struct {
		Errors   metric   `yaml:"errors"`
		Total    metric   `yaml:"total"`
		Grouping []string `yaml:"grouping"`
	}
	type spec struct {
		Target      string            `yaml:"target"` // in percent
		Window      string            `yaml:"window"`
		Description string            `yaml:"description"`
		Indicator   map[string]ratio  `yaml:"indicator"`
		Alerting    map[string]string `yaml:"alerting"`
	}
	var all []any
	for _, s := range slos {
		all = append(all, object{
			APIVersion: "pyrra.dev/v1alpha1", Kind: "ServiceLevelObjective", Metadata: map[string]any{"name": s.name()},
			Spec: spec{
				Target: strconv.FormatFloat(s.percent(), 'f', -1, 64), Window: sloWindow, Description: s.description(),
				// Labels by which Pyrra groups are on its alerts, which are routed by them.
				Indicator: map[string]ratio{"ratio": {
					metric{s.selector(badCounter, s.notOthers())}, metric{s.selector(totalCounter, s.notOthers())}, []string{"endpoint", "module"},
				}},
				Alerting: map[string]string{"name": sloAlert},
			},
		})
	}
	return documents("pyrra", all...)
}

// OpenSLO returns SLOs by the specification OpenSLO v1, and the service that they
// belong to.
func OpenSLO(slos []SLO) ([]byte, error) {
	source := func(query string) map[string]any {
		return map[string]any{"metricSource": map[string]any{"type": "Prometheus", "spec": map[string]any{"query": "sum(" + query + ")"}}}
	}
	all := []any{object{
		APIVersion: "openslo/v1", Kind: "Service", Metadata: map[string]any{"name": sloService, "displayName": "Inference endpoints"},
		Spec: map[string]any{"description": "Endpoints that inference_exporter probes."},
	}}
	for _, s := range slos {
		name := s.name()
		metadata := map[string]any{"name": name}
		if display := strings.Join([]string{s.Endpoint, s.Module, s.SLO}, " "); utf8.RuneCountInString(display) <= maxSLOName {
			metadata["displayName"] = display
		}
		all = append(all, object{
			APIVersion: "openslo/v1", Kind: "SLO", Metadata: metadata,
			Spec: map[string]any{
				"description": s.description(), "service": sloService, "budgetingMethod": "Occurrences",
				"timeWindow": []any{map[string]any{"duration": sloWindow, "isRolling": true}},
				"indicator": map[string]any{
					"metadata": map[string]any{"name": name},
					"spec":     map[string]any{"ratioMetric": map[string]any{"counter": true, "bad": source(s.bad()), "total": source(s.total())}},
				},
				"objectives": []any{map[string]any{"displayName": s.SLO, "target": s.Objective}},
			},
		})
	}
	return documents("openslo", all...)
}

// Mimir renders groups as a file of rules for mimirtool and cortextool, in a namespace
// of their own.
func Mimir(groups []Group, limits ...string) ([]byte, error) {
	return render(limits, struct {
		Namespace string  `yaml:"namespace"`
		Groups    []Group `yaml:"groups"`
	}{"inference_exporter", groups})
}

// documents renders the documents of a format.
func documents(format string, all ...any) ([]byte, error) {
	return render([]string{"Format: " + format + ". The rules of the format prometheus ask for more bad probes than chance explains; those made of this do not."}, all...)
}

// render renders documents of YAML below comments.
func render(comments []string, all ...any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Made by inference_exporter rules: change the configuration, not this file.\n")
	for _, comment := range comments {
		b.WriteString("# " + comment + "\n")
	}
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	for _, document := range all {
		if err := enc.Encode(document); err != nil {
			return nil, fmt.Errorf("render rules: %w", err)
		}
	}
	return b.Bytes(), nil
}

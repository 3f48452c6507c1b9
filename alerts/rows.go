package alerts

import (
	"cmp"
	"embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/gpu/xid"
)

// files are the rows that rules are made of. The head of shared.yml describes them.
//
//go:embed rows
var files embed.FS

// vars are texts by the names that stand for them in rows: ${name}.
type vars map[string]string

// each is the sets of variables that rules are made for: a list, or the name of one.
type each struct {
	name string
	list []vars
}

func (e *each) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		return node.Decode(&e.name)
	}
	return node.Decode(&e.list)
}

// row is an alert, a recording rule, or rules that are made for each of some variables.
type row struct {
	Each  each  `yaml:"each"`
	Rules []row `yaml:"rules"`

	// Its labels distinguish rules of one name.
	Rule `yaml:",inline"`
	// Meaning and Symptom are for the documentation.
	Meaning string `yaml:"meaning"`
	Symptom string `yaml:"symptom"`
	// Severity says who is notified, and how soon: critical is a person, now, warning a person in
	// working hours, info is shown without notification, none is for a machine. Category says what
	// the alert is about, to route and to inhibit by it.
	Severity    string `yaml:"severity"`
	Category    string `yaml:"category"`
	Summary     string `yaml:"summary"`     // one line with who and how much
	Description string `yaml:"description"` // what is measured, why it matters, and where to look first
	Board       string `yaml:"board"`
}

type groupRows struct {
	Name     string `yaml:"name"`
	Interval string `yaml:"interval"`
	Rules    []row  `yaml:"rules"`
}

// source is the rows of one set, with what the sets share.
type source struct {
	options Options

	Boards    map[string]string `yaml:"boards"`
	Let       vars              `yaml:"let"`
	Lists     map[string][]vars `yaml:"lists"`
	Recording []groupRows       `yaml:"recording"`
	Alerts    []groupRows       `yaml:"alerts"`
}

// readRows reads the rows of a set and adds what depends on options. It panics where the files are
// not as they should be: they are part of the program.
func readRows(o Options, set string) *source {
	s := &source{options: o, Lists: map[string][]vars{}}
	for _, name := range []string{"shared", set} {
		data, err := files.ReadFile("rows/" + name + ".yml")
		if err == nil {
			err = yaml.Unmarshal(data, s)
		}
		if err != nil {
			panic(fmt.Sprintf("alerts: rows/%s.yml: %s", name, err))
		}
	}
	// What a query in an annotation needs to be of the endpoint of the alert: same, a format, is filled in with these.
	names := once(slices.Concat([]string{"endpoint"}, o.Keep, o.Labels))
	var same, these []string
	for _, name := range strings.Split(names, ", ") {
		same, these = append(same, name+"=%q"), append(these, "$labels."+name)
	}
	s.Let["same"], s.Let["these"] = strings.Join(same, ","), strings.Join(these, " ")
	for _, class := range xid.Classes() {
		s.Let["xids_"+string(class)] = xid.Pattern(class)
	}
	s.Let["fewest_for_median"] = strconv.Itoa(fewestForMedian)
	s.Let["skip_window"] = duration(o.skipWindow())
	s.Lists["median_windows"] = o.medianWindows()
	return s
}

func (s *source) of(e each) []vars {
	if e.name == "" {
		return e.list
	}
	list, ok := s.Lists[e.name]
	if !ok {
		panic(fmt.Sprintf("alerts: no list %q", e.name))
	}
	return list
}

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// expand puts texts in place of variables, in these texts too.
func (s *source) expand(text string, v vars) string {
	return variable.ReplaceAllStringFunc(text, func(use string) string {
		name := use[2 : len(use)-1]
		value, ok := v[name]
		if !ok {
			value, ok = s.Let[name]
		}
		if !ok {
			panic(fmt.Sprintf("alerts: no variable %q in %q", name, text))
		}
		return s.expand(value, v)
	})
}

func (s *source) rows(rows []row, v vars) []row {
	var all []row
	for _, r := range rows {
		if r.Rules == nil {
			all = append(all, s.row(r, v))
			continue
		}
		for _, more := range s.of(r.Each) {
			inner := vars{}
			maps.Copy(inner, v)
			maps.Copy(inner, more)
			all = append(all, s.rows(r.Rules, inner)...)
		}
	}
	return all
}

func (s *source) row(r row, v vars) row {
	for _, text := range []*string{
		&r.Record, &r.Expr, &r.Alert, &r.Meaning, &r.Symptom, &r.Severity, &r.Category,
		&r.For, &r.KeepFiringFor, &r.Summary, &r.Description, &r.Board,
	} {
		*text = s.expand(*text, v)
	}
	r.Labels = maps.Clone(r.Labels)
	for name, value := range r.Labels {
		r.Labels[name] = s.expand(value, v)
	}
	return r
}

func (s *source) made(groups []groupRows) []Group {
	in := s.options.placeholders()
	var all []Group
	for _, g := range groups {
		group := Group{Name: g.Name, Interval: g.Interval}
		for _, r := range s.rows(g.Rules, nil) {
			rule := r.Rule
			if r.Alert != "" {
				rule = s.alert(r)
			}
			rule.Expr = withoutRepeats(in.Replace(rule.Expr))
			group.Rules = append(group.Rules, rule)
		}
		all = append(all, group)
	}
	return all
}

// recent records the endpoints that are or were down, or muted.
const recent = "endpoint:inference_endpoint_incident:max15m"

// alert returns an alert rule. Those on endpoints leave out muted ones: what records incidents has done so already.
func (s *source) alert(r row) Rule {
	rule := r.Rule
	if strings.Contains(rule.Expr, "by ("+about) && !strings.Contains(rule.Expr, "up{"+scrapes+"}") && !strings.Contains(rule.Expr, recent) {
		rule.Expr += "\nunless on (" + about + ") (inference_endpoint_muted == 1)"
	}
	rule.Labels = map[string]string{"severity": r.Severity, "category": r.Category}
	maps.Copy(rule.Labels, r.Labels)
	board, ok := s.Boards[r.Board]
	if !ok {
		panic(fmt.Sprintf("alerts: %s: no board %q", r.Alert, r.Board))
	}
	rule.Annotations = map[string]string{
		"summary": r.Summary, "description": r.Description,
		"runbook_url": cmp.Or(s.options.RunbookURL, DefaultRunbookURL) + r.Alert + ".md", "dashboard": strings.TrimSuffix(s.options.GrafanaURL, "/") + board,
	}
	if s.options.ExporterURL != "" && r.Board == "endpoint" {
		rule.Annotations["explain"] = strings.TrimSuffix(s.options.ExporterURL, "/") + explainPath
	}
	return rule
}

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
	"time"

	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/gpu/xid"
)

// files are the rows that rules are made of. The head of shared.yml describes them.
//
//go:embed rows
var files embed.FS

// vars are texts by the names that stand for them in rows: ${name}.
type vars map[string]string

// row is an alert, a recording rule, or rules that are made for each of some variables.
type row struct {
	Each             []vars `yaml:"each"`
	EachMedianWindow bool   `yaml:"each_median_window"`
	Rules            []row  `yaml:"rules"`

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
	Recording []groupRows       `yaml:"recording"`
	Alerts    []groupRows       `yaml:"alerts"`
}

// readRows reads the rows of a set and adds what depends on options. It panics where the files are
// not as they should be: they are part of the program.
func readRows(o Options, set string) *source {
	s := &source{options: o}
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
	return s
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
		if r.EachMedianWindow {
			r.Each = s.options.medianWindows()
		}
		for _, more := range r.Each {
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

// fewestForMedian is how many probes each of two medians must rest on, so that a ratio of 1.5 between them is beyond
// chance: 1 in 20,000 looks where the logarithm of TTFT has a standard deviation of 0.5.
const fewestForMedian = 60

// medianWindows returns the windows of the medians that are compared with those of a week before, and the modules that
// each is for, as matchers: only those of the record, which begin with a comma, and modules those of the alert. Each
// holds half as many probes again as are needed, for some fail or are skipped. Modules that are too slow for two hours
// are not compared: theirs is the first one, in which they are too few.
func (o Options) medianWindows() []vars {
	const shortest, longest = 30 * time.Minute, 2 * time.Hour
	byWindow := map[time.Duration][]string{}
	var others []string
	for _, name := range slices.Sorted(maps.Keys(o.Modules)) {
		w := (o.Modules[name] * fewestForMedian * 3 / 2).Round(time.Minute)
		if w > shortest && w <= longest {
			byWindow[w] = append(byWindow[w], regexp.QuoteMeta(name))
			others = append(others, regexp.QuoteMeta(name))
		}
	}
	windows := []vars{{"window": duration(shortest), "only": "", "modules": ""}}
	if len(others) > 0 {
		windows[0]["modules"] = fmt.Sprintf("{module!~%q}", strings.Join(others, "|"))
	}
	for _, w := range slices.Sorted(maps.Keys(byWindow)) {
		only := fmt.Sprintf("module=~%q", strings.Join(byWindow[w], "|"))
		windows = append(windows, vars{"window": duration(w), "only": "," + only, "modules": "{" + only + "}"})
	}
	return windows
}

// skipWindow is the window in which a module whose every run is left out has
// counted some of them: 15 minutes, or more where the slowest module needs it.
func (o Options) skipWindow() time.Duration {
	window := 15 * time.Minute
	for _, interval := range o.Modules {
		window = max(window, 4*interval)
	}
	return window
}

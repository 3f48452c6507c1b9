package alerts

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

var update = flag.Bool("update", false, "rewrite the files of rules, the lists of alerts in docs, the example for Alertmanager and what other tools read")

// TestFilesAreCurrent compares the files with what the package makes.
func TestFilesAreCurrent(t *testing.T) {
	marshal := func(groups []Group) []byte {
		t.Helper()
		text, err := Marshal(groups)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	f := func(path string, got []byte) {
		t.Helper()
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s differs; if the change is wanted, rewrite it with -update (-want +got):\n%s", path, d)
		}
	}
	f("recording.yml", marshal(Recording(Default())))
	f("alerts.yml", marshal(Alerts(Default())))
	for _, set := range Sets() {
		f(set+".yml", marshal(rulesOf(Default(), set)))
	}
	routes, err := Alertmanager(Default())
	if err != nil {
		t.Fatal(err)
	}
	f("../examples/stack/alertmanager.yml", routes)
}

// alertsByName returns the rows of alerts by name, and the names in order.
func alertsByName() (map[string][]row, []string) {
	byName := map[string][]row{}
	var names []string
	for _, set := range append([]string{defaultSet}, Sets()...) {
		s := readRows(Default(), set)
		for _, g := range s.Alerts {
			for _, r := range s.rows(g.Rules, nil) {
				if r.Alert == "" {
					continue
				}
				if byName[r.Alert] == nil {
					names = append(names, r.Alert)
				}
				byName[r.Alert] = append(byName[r.Alert], r)
			}
		}
	}
	return byName, names
}

// TestReference holds the lists of alerts in docs to the rows, and runbooks to alerts.
func TestReference(t *testing.T) {
	byName, names := alertsByName()
	// Pages come first.
	severities := []string{"critical", "warning", "info", "none"}
	slices.SortStableFunc(names, func(a, b string) int {
		most := func(name string) int {
			first := len(severities)
			for _, r := range byName[name] {
				first = min(first, slices.Index(severities, r.Severity))
			}
			return first
		}
		return most(a) - most(b)
	})
	tables := map[string]*strings.Builder{}
	for _, c := range []string{"availability", "latency", "quality", "saturation", "gpu", "exporter"} {
		tables[c] = &strings.Builder{}
		tables[c].WriteString("| alert | severity | meaning |\n| --- | --- | --- |\n")
	}
	symptoms := map[string][]string{} // items by heading
	alerts := map[string][]string{}   // links by heading and item
	for _, name := range names {
		first := byName[name][0]
		var how []string
		for _, r := range byName[name] {
			if !slices.Contains(how, r.Severity) {
				how = append(how, r.Severity)
			}
		}
		table, heading, item := tables[first.Category], "", ""
		if heading, item, _ = strings.Cut(first.Symptom, " / "); item == "" || first.Meaning == "" || table == nil {
			t.Errorf("%s: meaning %q, symptom %q, category %q", name, first.Meaning, first.Symptom, first.Category)
			continue
		}
		fmt.Fprintf(table, "| [%[1]s](%[1]s.md) | %[2]s | %[3]s |\n", name, strings.Join(how, ", "), first.Meaning)
		if alerts[first.Symptom] == nil {
			symptoms[heading] = append(symptoms[heading], item)
		}
		alerts[first.Symptom] = append(alerts[first.Symptom], fmt.Sprintf("[%[1]s](runbooks/%[1]s.md)", name))
		if _, err := os.Stat("../docs/runbooks/" + name + ".md"); err != nil {
			t.Error(err)
		}
	}
	for category, table := range tables {
		testlab.Section(t, "../docs/runbooks/README.md", category, table.String(), *update)
	}
	for heading, items := range symptoms {
		table := "| symptom | alerts |\n| --- | --- |\n"
		for _, item := range items {
			table += "| " + item + " | " + strings.Join(alerts[heading+" / "+item], ", ") + " |\n"
		}
		testlab.Section(t, "../docs/alerts.md", heading, table, *update)
	}
	runbooks, err := filepath.Glob("../docs/runbooks/Inference*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range runbooks {
		if name := strings.TrimSuffix(filepath.Base(path), ".md"); byName[name] == nil {
			t.Errorf("%s is of no alert", path)
		}
	}
}

func TestWindows(t *testing.T) {
	f := func(intervals []time.Duration, medians, skips string) {
		t.Helper()
		o := Options{Modules: map[string]time.Duration{}}
		for _, interval := range intervals {
			o.Modules[interval.String()] = interval
		}
		var lengths []string
		for _, w := range o.medianWindows() {
			lengths = append(lengths, w["window"])
		}
		if got := strings.Join(lengths, " "); got != medians {
			t.Errorf("%v: medians over %s, want %s", intervals, got, medians)
		}
		if got := duration(o.skipWindow()); got != skips {
			t.Errorf("%v: skipped runs over %s, want %s", intervals, got, skips)
		}
	}
	const s, m, h = time.Second, time.Minute, time.Hour
	// 90 probes take 7.5, 22.5, 45 and 90 minutes.
	f([]time.Duration{5 * s}, "30m", "15m")
	f([]time.Duration{15 * s}, "30m", "15m")
	f([]time.Duration{30 * s}, "30m 45m", "15m")
	f([]time.Duration{60 * s}, "30m 90m", "15m")
	f([]time.Duration{80 * s}, "30m 2h", "15m")
	// Each has a window of its own, and one too slow for a median the shortest.
	f([]time.Duration{10 * m, 60 * s, 15 * s}, "30m 90m", "40m")
	f([]time.Duration{30 * s, 60 * s}, "30m 45m 90m", "15m")
	f([]time.Duration{30 * m}, "30m", "2h")
	f([]time.Duration{20*m + 30*s}, "30m", "82m")
	f(nil, "30m", "15m")
	f([]time.Duration{15 * m, 6 * h}, "30m", "24h")
}

// allSets are the options for the default configuration with all sets.
func allSets() Options {
	o := Default()
	o.Sets = Sets()
	return o
}

// TestSetsBringWhatTheyNeed checks that each set goes by series that the exporter has, or that are recorded in it or in
// the default set, and that no two of its groups have one name.
func TestSetsBringWhatTheyNeed(t *testing.T) {
	series := regexp.MustCompile(`\b[a-z]+:inference_\w+:\w+`)
	recorded := map[string]bool{}
	add := func(groups []Group) {
		for _, g := range groups {
			for _, r := range g.Rules {
				recorded[r.Record] = true
			}
		}
	}
	check := func(groups []Group) {
		for _, g := range groups {
			for _, r := range g.Rules {
				for _, name := range series.FindAllString(r.Expr, -1) {
					if !recorded[name] {
						t.Errorf("%s: %s%s: no rule records %s", g.Name, r.Record, r.Alert, name)
					}
				}
			}
		}
	}
	groups := append(Recording(Default()), Alerts(Default())...)
	add(groups)
	check(groups)
	common := maps.Clone(recorded)
	for _, set := range Sets() {
		recorded = maps.Clone(common)
		add(rulesOf(Default(), set))
		check(rulesOf(Default(), set))
	}
	names := map[string]bool{}
	for _, g := range append(Recording(allSets()), Alerts(allSets())...) {
		if names[g.Name] {
			t.Errorf("two groups are called %s", g.Name)
		}
		names[g.Name] = true
	}
}

// alertRules returns the alert rules of all groups.
func alertRules(o Options) []Rule {
	var all []Rule
	for _, g := range Alerts(o) {
		for _, r := range g.Rules {
			if r.Alert != "" {
				all = append(all, r)
			}
		}
	}
	return all
}

// recordingRules returns the recording rules of all groups, also of those with
// alerts.
func recordingRules(o Options) []Rule {
	var all []Rule
	for _, g := range append(Recording(o), Alerts(o)...) {
		for _, r := range g.Rules {
			if r.Record != "" {
				all = append(all, r)
			}
		}
	}
	return all
}

// TestOptions checks what flags change: what distinguishes clusters, names of jobs
// and links.
func TestOptions(t *testing.T) {
	o := allSets()
	o.Labels, o.Keep, o.Job = []string{"team"}, []string{"cluster", "job"}, "llm-.*"
	o.GrafanaURL, o.ExporterURL = "https://grafana.example/g/", "https://probes.example"
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	rule := map[string]Rule{}
	for _, r := range append(alertRules(o), recordingRules(o)...) {
		rule[r.Alert+r.Record] = r
		if regexp.MustCompile(`\$[A-Z]`).MatchString(r.Expr) || strings.Contains(r.Expr, "job, job") {
			t.Errorf("%s%s:\n%s", r.Alert, r.Record, r.Expr)
		}
	}
	for name, want := range map[string]string{
		"endpoint:inference_endpoint_incident:max15m": "max by (endpoint, cluster, job, team) (",
		"instance:inference_endpoint_info:last":       "group by (job, instance, endpoint, model, cluster, team) (inference_endpoint_info)",
		"InferenceExporterDown":                       `up{job=~"llm-.*"} == 0`,
		"InferenceModelChanged":                       "min by (endpoint, cluster, job, team, from, to, source) (",
		"InferenceGatewayWithoutBackends":             "max by (gateway, cluster, job) (",
		"module:inference_slo_objective:ratio":        "min by (endpoint, model, cluster, job, team, module, slo) (",
	} {
		if !strings.Contains(rule[name].Expr, want) {
			t.Errorf("%s has no %q:\n%s", name, want, rule[name].Expr)
		}
	}
	a := rule["InferenceEndpointDown"].Annotations
	if want := "https://grafana.example/g/d/ie-endpoint?var-endpoint={{ $labels.endpoint | urlquery }}"; a["dashboard"] != want {
		t.Errorf("dashboard %q", a["dashboard"])
	}
	if want := "https://probes.example/api/v1/endpoints/{{ $labels.endpoint | urlquery }}/explain"; a["explain"] != want {
		t.Errorf("explain %q", a["explain"])
	}
	if text, err := Alertmanager(o); err != nil || !strings.Contains(string(text), "group_by: [endpoint, gateway, cluster, job, instance]") {
		t.Errorf("routes: %v\n%s", err, text)
	} else if !strings.Contains(string(text), "group_by: [scope, cluster, job]") {
		t.Errorf("incidents are not grouped by scope:\n%s", text)
	}
	for _, bad := range []Options{{Keep: []string{"a-b"}}, {Job: "("}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// TestMutedEndpointsPageNobody checks that every alert on an endpoint leaves muted ones out.
func TestMutedEndpointsPageNobody(t *testing.T) {
	for _, r := range alertRules(allSets()) {
		if !strings.Contains(r.Annotations["summary"], "$labels.endpoint") || strings.HasPrefix(r.Expr, incident) {
			continue
		}
		lines := strings.Split(r.Expr, "\n")
		without, ok := strings.CutPrefix(lines[len(lines)-1], "unless on (endpoint) ")
		if ok && (without == recent || without == "(inference_endpoint_muted == 1)") && !hasOr(lines) {
			continue
		}
		t.Errorf("%s:\n%s", r.Alert, r.Expr)
	}
}

// hasOr returns whether an expression is two sets beside each other: what is left out of the second is in the first.
func hasOr(lines []string) bool {
	open := 0
	for _, line := range lines {
		if open == 0 && (line == "or" || strings.HasPrefix(line, "or ")) {
			return true
		}
		open += strings.Count(line, "(") - strings.Count(line, ")")
	}
	return false
}

// incident records the incident of an endpoint, none of a muted one.
const incident = "endpoint:inference_endpoint_incident_start_timestamp_seconds:first"

// TestAnnotationsAskForTheEndpoint checks that queries in annotations have all labels that tell endpoints apart.
func TestAnnotationsAskForTheEndpoint(t *testing.T) {
	o := allSets()
	o.Keep, o.Labels = []string{"cluster"}, []string{"team"}
	query := regexp.MustCompile(`query (\(printf "(?:[^"\\]|\\.)*"[^)]*\)|"[^"]*")`)
	found := 0
	for _, r := range alertRules(o) {
		for name, text := range r.Annotations {
			for _, m := range query.FindAllString(text, -1) {
				found++
				for _, want := range []string{"endpoint=%q", "cluster=%q", "team=%q", "$labels.endpoint $labels.cluster $labels.team)"} {
					if !strings.Contains(m, want) {
						t.Errorf("%s: %s: %s has no %s", r.Alert, name, m, want)
					}
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d queries", found)
	}
}

// rulesOf returns the rules of a set alone.
func rulesOf(o Options, set string) []Group {
	s := readRows(o, set)
	return append(s.made(s.Recording), s.made(s.Alerts)...)
}

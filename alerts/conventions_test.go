package alerts

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/collector"
)

// TestConventions checks what a human reader of an alert, and the routing of
// alerts, rely on.
func TestConventions(t *testing.T) {
	severities := []string{"critical", "warning", "info", "none"}
	categories := []string{"availability", "latency", "saturation", "quality", "gpu", "exporter"}
	name := regexp.MustCompile(`^Inference[A-Z][A-Za-z0-9]+$`)
	board := regexp.MustCompile(`^/d/ie-(fleet|endpoint|engine|gpu|capacity|self)(\?var-[a-z]+=\{\{ \$labels\.[a-z]+ \| urlquery \}\})?$`)
	seen := map[string]bool{}
	for _, r := range alertRules(Default()) {
		if !name.MatchString(r.Alert) {
			t.Errorf("name %q", r.Alert)
		}
		key := r.Alert + r.Labels["severity"] + r.Labels["window"] + r.Labels["cause"]
		if seen[key] {
			t.Errorf("%s: no label tells two rules apart", r.Alert)
		}
		seen[key] = true
		if !slices.Contains(severities, r.Labels["severity"]) || !slices.Contains(categories, r.Labels["category"]) {
			t.Errorf("%s: labels %v", r.Alert, r.Labels)
		}
		a := r.Annotations
		if want := "https://github.com/inference-exporter/inference_exporter/blob/main/docs/runbooks/" + r.Alert + ".md"; a["runbook_url"] != want {
			t.Errorf("%s: runbook_url %q", r.Alert, a["runbook_url"])
		}
		if !board.MatchString(a["dashboard"]) {
			t.Errorf("%s: dashboard %q", r.Alert, a["dashboard"])
		}
		if len(a["summary"]) > 160 || strings.Contains(a["summary"], "\n") || !strings.HasSuffix(a["summary"], ".") {
			t.Errorf("%s: summary %q", r.Alert, a["summary"])
		}
		if len(a["description"]) < 80 || !strings.HasSuffix(a["description"], ".") {
			t.Errorf("%s: description %q", r.Alert, a["description"])
		}
	}
}

// TestAnnotationLabels checks that the labels that an annotation shows are
// named by the expression: an aggregation drops all others.
func TestAnnotationLabels(t *testing.T) {
	used := regexp.MustCompile(`\$labels\.(\w+)`)
	// Labels that series of these prefixes have without being aggregated.
	raw := map[string][]string{
		"inference_gpu_": {"instance", "gpu", "xid", "state", "reason"},
		"up{":            {"instance"},
	}
	for _, r := range alertRules(Default()) {
		for _, text := range r.Annotations {
			for _, m := range used.FindAllStringSubmatch(text, -1) {
				ok := regexp.MustCompile(`by \([^)]*\b` + m[1] + `\b`).MatchString(r.Expr)
				ok = ok || m[1] == "endpoint" && regexp.MustCompile(`(endpoint|module):inference_`).MatchString(r.Expr)
				ok = ok || m[1] == "module" && strings.Contains(r.Expr, "module:inference_")
				for prefix, labels := range raw {
					ok = ok || strings.Contains(r.Expr, prefix) && slices.Contains(labels, m[1])
				}
				if !ok {
					t.Errorf("%s: the label %s of %q is not in the result", r.Alert, m[1], text)
				}
			}
		}
	}
}

// TestJoinsNameTheirLabels guards against the alert that can never fire: an
// "and" between series of which one has a label more.
func TestJoinsNameTheirLabels(t *testing.T) {
	join := regexp.MustCompile(`\b(and|unless)\b( on \()?`)
	arithmetic := regexp.MustCompile(`(?m)^\s*([-+*/^]|[<>=]=?)( on \(|[^\n]*)$`)
	for _, r := range append(alertRules(Default()), recordingRules(Default())...) {
		for _, m := range join.FindAllStringSubmatch(r.Expr, -1) {
			if m[2] == "" {
				t.Errorf("%s%s: %q without on in\n%s", r.Alert, r.Record, m[1], r.Expr)
			}
		}
		for _, m := range arithmetic.FindAllStringSubmatch(r.Expr, -1) {
			if m[2] != " on (" && strings.Contains(m[2], "inference_") {
				t.Errorf("%s%s: %q without on in\n%s", r.Alert, r.Record, m[0], r.Expr)
			}
		}
	}
}

// TestMetricsExist checks every metric and every label of a selector against
// the catalogue: an engine or a release that renames one silences an alert.
func TestMetricsExist(t *testing.T) {
	metric := regexp.MustCompile(`\b(?:\w+:)?inference_[a-zA-Z0-9_:]+(?:\{([^}]*)\})?`)
	matcher := regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	families := map[string]collector.Family{}
	for _, f := range collector.Catalogue() {
		families[f.Name] = f
		if f.Type == collector.Histogram || f.Type == collector.Summary {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				families[f.Name+suffix] = f
			}
		}
	}
	recorded := recordedNames()
	for _, r := range append(alertRules(Default()), recordingRules(Default())...) {
		for _, m := range metric.FindAllStringSubmatch(r.Expr, -1) {
			name, _, _ := strings.Cut(m[0], "{")
			f, ok := families[name]
			if !ok && !slices.Contains(recorded, name) {
				t.Errorf("%s%s: there is no metric %s", r.Alert, r.Record, name)
			}
			if !ok {
				continue
			}
			for _, l := range matcher.FindAllStringSubmatch(m[1], -1) {
				checkMatcher(t, r, f, l[1], l[2], l[3])
			}
		}
	}
}

func checkMatcher(t *testing.T, r Rule, f collector.Family, label, op, value string) {
	t.Helper()
	if !slices.Contains(f.Labels, label) {
		t.Errorf("%s%s: %s has no label %s", r.Alert, r.Record, f.Name, label)
		return
	}
	if f.Values == nil || f.Labels[len(f.Labels)-1] != label {
		return
	}
	for _, v := range strings.Split(value, "|") {
		if !slices.Contains(f.Values, v) {
			t.Errorf("%s%s: %s%s%q: %s has no value %q", r.Alert, r.Record, label, op, value, f.Name, v)
		}
	}
}

// recordingRules returns the recording rules of all groups.
func recordingRules(o Options) []Rule {
	var all []Rule
	for _, g := range Recording(o) {
		all = append(all, g.Rules...)
	}
	return all
}

func recordedNames() []string {
	var names []string
	for _, r := range recordingRules(Default()) {
		names = append(names, r.Record)
	}
	return names
}

// TestRecordingNames checks that a name is given once and follows the
// convention level:metric:operations.
func TestRecordingNames(t *testing.T) {
	shape := regexp.MustCompile(`^(endpoint|module|instance):inference_[a-z0-9_]+:[a-z0-9_]+$`)
	names := recordedNames()
	for i, name := range names {
		if !shape.MatchString(name) {
			t.Errorf("name %q", name)
		}
		if slices.Contains(names[:i], name) {
			t.Errorf("%s is recorded twice", name)
		}
	}
}

package board

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Window is the range of time that a dashboard shows.
type Window struct {
	// Step is the time between two points.
	Step time.Duration
	// Range is the whole.
	Range time.Duration
	// Rate is the range that a rate is taken over.
	Rate time.Duration
}

// builtin returns the variables of Grafana itself.
func (w Window) builtin() map[string]string {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%d", int(d.Seconds())) }
	return map[string]string{
		"__interval":      seconds(w.Step) + "s",
		"__interval_ms":   seconds(w.Step * 1000),
		"__rate_interval": seconds(w.Rate) + "s",
		"__range":         seconds(w.Range) + "s",
		"__range_s":       seconds(w.Range),
		"__range_ms":      seconds(w.Range * 1000),
	}
}

// reference matches ${name}, ${name:format}, [[name]] and $name. A number after
// the $ is a group of a regular expression, and not a variable.
var reference = regexp.MustCompile(`\$\{(\w+)(?::\w+)?\}|\[\[(\w+)(?::\w+)?\]\]|\$([a-zA-Z_]\w*)`)

// Fill replaces the variables in a query. It returns an error for those that
// neither Grafana nor values has.
func (w Window) Fill(query string, values map[string]string) (string, error) {
	builtin := w.builtin()
	var problems []error
	filled := reference.ReplaceAllStringFunc(query, func(found string) string {
		m := reference.FindStringSubmatch(found)
		name := m[1] + m[2] + m[3]
		if v, ok := builtin[name]; ok {
			return v
		}
		v, ok := values[name]
		if !ok {
			problems = append(problems, fmt.Errorf("no variable %s", name))
		}
		return v
	})
	return filled, errors.Join(problems...)
}

// labelValues matches label_values(label) and label_values(selector, label).
var labelValues = regexp.MustCompile(`^\s*label_values\(\s*(?:(.+)\s*,\s*)?(\w+)\s*\)\s*$`)

// Listed is what a query of a variable lists: the values of a label, of the
// series of a selector or, where that is empty, of all.
type Listed struct{ Selector, Label string }

// ParseListed reads the query of a variable.
func ParseListed(query string) (Listed, error) {
	m := labelValues.FindStringSubmatch(query)
	if m == nil {
		return Listed{}, fmt.Errorf("%q is not a call of label_values", query)
	}
	return Listed{Selector: strings.TrimSpace(m[1]), Label: m[2]}, nil
}

// AllOf returns what Grafana fills in for all of the values.
func (v Variable) AllOf(values []string) string {
	if v.AllValue != "" {
		return v.AllValue
	}
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = regexp.QuoteMeta(value)
	}
	// In a string of PromQL a backslash is written twice.
	return "(" + strings.ReplaceAll(strings.Join(quoted, "|"), `\`, `\\`) + ")"
}

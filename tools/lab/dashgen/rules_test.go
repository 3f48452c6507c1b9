package main

import (
	"regexp"
	"testing"

	"github.com/inference-exporter/inference_exporter/alerts"
)

// TestRules checks that alerts ask for what exists, by the labels that it has, and show only
// labels that their result has: an aggregation drops all others.
func TestRules(t *testing.T) {
	c := newTestChecker(t)
	shown := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, g := range alerts.Alerts(allSets()) {
		for _, r := range g.Rules {
			left, err := c.labelsOf(r.Expr)
			if err != nil {
				t.Errorf("%s: %v", r.Alert, err)
				continue
			}
			for _, text := range r.Annotations {
				for _, m := range shown.FindAllStringSubmatch(text, -1) {
					if !left[m[1]] && r.Labels[m[1]] == "" {
						t.Errorf("%s: the label %s of %q is not in the result", r.Alert, m[1], text)
					}
				}
			}
		}
	}
}

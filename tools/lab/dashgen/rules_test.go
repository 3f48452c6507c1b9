package main

import (
	"os"
	"regexp"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestRules checks that alerts ask for what exists, by the labels that it has, and show only
// labels that their result has: an aggregation drops all others.
func TestRules(t *testing.T) {
	c := newTestChecker(t)
	const file = "../../../alerts/alerts.yml"
	if err := c.addRules(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, g := range rules.Groups {
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

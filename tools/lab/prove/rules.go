package prove

import (
	"fmt"
	"os"

	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"
)

// rule is one rule of a rule file.
type rule struct {
	Record string `yaml:"record"`
	Alert  string `yaml:"alert"`
	Expr   string `yaml:"expr"`
	// group is the name of its group, and every how often that is evaluated.
	group string
	every model.Duration
}

// name returns what a report calls the rule.
func (r rule) name() string {
	if r.Alert != "" {
		return "alert " + r.Alert
	}
	return "record " + r.Record
}

// readRules returns the rules in some files.
func readRules(files []string) ([]rule, error) {
	var all []rule
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var f struct {
			Groups []struct {
				Name     string         `yaml:"name"`
				Interval model.Duration `yaml:"interval"`
				Rules    []rule         `yaml:"rules"`
			} `yaml:"groups"`
		}
		if err := yaml.Unmarshal(text, &f); err != nil {
			return nil, fmt.Errorf("read rules %s: %w", name, err)
		}
		for _, g := range f.Groups {
			for _, r := range g.Rules {
				r.group, r.every = g.Name, g.Interval
				all = append(all, r)
			}
		}
	}
	return all, nil
}

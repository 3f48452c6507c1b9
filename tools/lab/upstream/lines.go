package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// section says how names are written from a place in a file on, up to the next place: a table in C++, a class of constants, the
// rows of a CSV.
type section struct {
	From   expression `yaml:"from"`
	Name   expression `yaml:"name"` // the group `name`, and `type` and `unit` if it has them; none: no names here
	Type   string     `yaml:"type"`
	Prefix string     `yaml:"prefix"`
	Units  bool       `yaml:"units"` // the name ends in the unit
}

// expression is a regular expression.
type expression struct{ *regexp.Regexp }

// UnmarshalYAML compiles it. "^" and "$" are those of lines.
func (e *expression) UnmarshalYAML(n *yaml.Node) error {
	r, err := regexp.Compile("(?m)" + n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	e.Regexp = r
	return nil
}

// lines returns the metrics in the sections of files.
func (s *source) lines(files []file) []metric {
	type start struct {
		before, at int
		section    *section
	}
	var found []metric
	for _, f := range files {
		var starts []start
		for i := range s.Lines {
			for _, at := range s.Lines[i].From.FindAllStringIndex(f.text, -1) {
				starts = append(starts, start{at[0], at[1], &s.Lines[i]})
			}
		}
		slices.SortStableFunc(starts, func(a, b start) int { return cmp.Compare(a.before, b.before) })
		starts = slices.CompactFunc(starts, func(a, b start) bool { return a.before == b.before }) // the first in sources.yml
		for i, here := range starts {
			end := len(f.text)
			if i+1 < len(starts) {
				end = max(here.at, starts[i+1].before)
			}
			found = append(found, here.section.metrics(f.text[here.at:end])...)
		}
	}
	return found
}

func (sec *section) metrics(text string) []metric {
	if sec.Name.Regexp == nil {
		return nil
	}
	var found []metric
	for _, at := range sec.Name.FindAllStringSubmatch(text, -1) {
		m := metric{Type: sec.Type}
		for i, group := range sec.Name.SubexpNames() {
			switch group {
			case "name":
				m.Name = sec.Prefix + at[i]
			case "type":
				m.Type = strings.ToLower(at[i])
			case "unit":
				m.Unit = strings.ToLower(at[i])
			}
		}
		if sec.Units && m.Unit != "" {
			m.Name += "_" + m.Unit
		}
		found = append(found, m)
	}
	return found
}

package prove

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/tools/lab/prove/query"
)

// allowance excuses a query that has no data in the test setup.
type allowance struct {
	// Query is the name of a check, or that of both checks of a query.
	Query string `yaml:"query"`
	// Reason says why it has none.
	Reason string `yaml:"reason"`
}

// readAllowances returns the allowances in a file, by query.
func readAllowances(name string) (map[string]allowance, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var list []allowance
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	all := map[string]allowance{}
	for _, a := range list {
		if _, twice := all[a.Query]; twice || a.Query == "" || a.Reason == "" {
			return nil, fmt.Errorf("read %s: want each query once, and a reason: %+v", name, a)
		}
		all[a.Query] = a
	}
	return all, nil
}

// excuse returns the allowance for a check.
func excuse(allowed map[string]allowance, c *check) (allowance, bool) {
	if a, ok := allowed[c.name]; ok {
		return a, true
	}
	a, ok := allowed[strings.TrimSuffix(c.name, oneChosen)]
	return a, ok
}

// leaveOut takes parts out of checks that read nothing but recorded series that are
// excused themselves, as what an outage that does not happen would silence.
func leaveOut(checks []*check, allowed map[string]allowance) {
	isExcused := func(series string) bool { return allowed["record "+series].Query != "" }
	for _, c := range checks {
		if _, ok := allowed[c.name]; ok {
			continue
		}
		for i, parts := range c.alternatives {
			c.alternatives[i] = slices.DeleteFunc(parts, func(e parser.Expr) bool {
				reads := query.Reads(e)
				return len(reads) > 0 && !slices.ContainsFunc(reads, func(series string) bool { return !isExcused(series) })
			})
		}
	}
}

package main

import (
	"fmt"
	"time"

	"github.com/inference-exporter/inference_exporter/alerts"
)

// rulesFor returns the paging alerts that the exporter makes for probes with
// an interval, with the recording rules that they need.
func rulesFor(interval time.Duration) ([]rule, error) {
	o := alerts.Options{Modules: map[string]time.Duration{"interactive": interval}}
	var files [][]byte
	for _, groups := range [][]alerts.Group{alerts.Recording(o), alerts.Alerts(o)} {
		file, err := alerts.Marshal(groups)
		if err != nil {
			return nil, fmt.Errorf("rules for probes every %s: %w", interval, err)
		}
		files = append(files, file)
	}
	rules, err := parseRules(files...)
	if err != nil {
		return nil, fmt.Errorf("rules for probes every %s: %w", interval, err)
	}
	return paging(rules), nil
}

package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The intervals above which a module, probed by one exporter, has fewer than two probes in the short windows of the fast burns, 5m and 30m.
const (
	longestForBurn1h = 5 * time.Minute / 2
	longestForBurn6h = 30 * time.Minute / 2
)

// Limits returns what the rules cannot tell with these options, each as a line
// of text: which modules are probed too seldom for which alerts.
func Limits(o Options) []string {
	var limits []string
	if names := o.slowerThan(longestForBurn1h); len(names) > 0 {
		limits = append(limits, fmt.Sprintf(
			"Interval above 150s, %s: they have fewer than two probes in 5m, so that fast burns over 1h cannot fire.",
			strings.Join(names, ", ")))
	}
	if names := o.slowerThan(longestForBurn6h); len(names) > 0 {
		limits = append(limits, fmt.Sprintf(
			"Interval above 15m, %s: fast burns over 6h go by one or two probes in 30m, and above 36m never see the ten bad ones that they ask for.",
			strings.Join(names, ", ")))
	}
	return limits
}

// slowerThan returns the names of the modules with an interval above limit, in
// order.
func (o Options) slowerThan(limit time.Duration) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(o.Modules)) {
		if o.Modules[name] > limit {
			names = append(names, fmt.Sprintf("%q (%s)", name, duration(o.Modules[name])))
		}
	}
	return names
}

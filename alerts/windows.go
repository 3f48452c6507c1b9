package alerts

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// fewestForMedian is how many probes each of two medians must rest on, so that a ratio of 1.5 between them is beyond
// chance: 1 in 20,000 looks where the logarithm of TTFT has a standard deviation of 0.5.
const fewestForMedian = 60

// medianWindows returns the windows of the medians that are compared with those of a week before, and the modules that
// each is for, as matchers: only those of the record, which begin with a comma, and modules those of the alert. Each
// holds half as many probes again as are needed, for some fail or are skipped. Modules that are too slow for two hours
// are not compared: theirs is the first one, in which they are too few.
func (o Options) medianWindows() []vars {
	const shortest, longest = 30 * time.Minute, 2 * time.Hour
	byWindow := map[time.Duration][]string{}
	var others []string
	for _, name := range slices.Sorted(maps.Keys(o.Modules)) {
		w := (o.Modules[name] * fewestForMedian * 3 / 2).Round(time.Minute)
		if w > shortest && w <= longest {
			byWindow[w] = append(byWindow[w], regexp.QuoteMeta(name))
			others = append(others, regexp.QuoteMeta(name))
		}
	}
	windows := []vars{{"window": duration(shortest), "only": "", "modules": ""}}
	if len(others) > 0 {
		windows[0]["modules"] = fmt.Sprintf("{module!~%q}", strings.Join(others, "|"))
	}
	for _, w := range slices.Sorted(maps.Keys(byWindow)) {
		only := fmt.Sprintf("module=~%q", strings.Join(byWindow[w], "|"))
		windows = append(windows, vars{"window": duration(w), "only": "," + only, "modules": "{" + only + "}"})
	}
	return windows
}

// skipWindow is the window in which a module whose every run is left out has
// counted some of them: 15 minutes, or more where the slowest module needs it.
func (o Options) skipWindow() time.Duration {
	window := 15 * time.Minute
	for _, interval := range o.Modules {
		window = max(window, 4*interval)
	}
	return window
}

package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A minute is bad when at least one of its probes is. Failures that come in
// one burst then count once. How many bad minutes are expected follows from
// the objective and from how many probes there were, whatever their interval;
// badMinuteSigmas standard deviations more, and badMinuteExtra on top because
// so few are not normally distributed, are beyond chance. With an objective of
// 0.99 that asks for 13, 8, 6 and 5 of 30 minutes for a probe every 5, 15, 30
// and 60 s. With objectives below 0.93, 0.81, 0.65 and 0.43 it asks for more than
// there are: almost every minute may be bad, and only burn rates can alert.
const (
	badMinuteWindow = 30 // minutes
	badMinuteSigmas = 4
	badMinuteExtra  = 2
)

// fewestProbesToPage is how many probes in badMinuteWindow make bad minutes
// worth a page. With fewer than one in 40 s, a short burst fills as many
// minutes as a lasting trouble.
const fewestProbesToPage = 45

// burn is a pair of windows over which the error budget is spent too fast.
type burn struct {
	long, short string // windows
	rate        string // of spending, as a multiple of what the objective allows
	fewestLong  int    // bad probes in the long window
	fewestShort int    // bad probes in the short window; 0 asks for none
	lasting     string // for
	keep        string // keep_firing_for
}

// Where objectives are strict and probes rare, one bad probe is a high rate:
// the fewest bad probes keep it from being an alert.
func fastBurns() []burn {
	return []burn{
		{long: "1h", short: "5m", rate: "14.4", fewestLong: 5, fewestShort: 2, lasting: "2m", keep: "5m"},
		{long: "6h", short: "30m", rate: "6", fewestLong: 10, lasting: "15m", keep: "15m"},
	}
}

func slowBurns() []burn {
	return []burn{
		{long: "1d", short: "2h", rate: "3", fewestLong: 20, lasting: "1h", keep: "6h"},
		{long: "3d", short: "6h", rate: "1", fewestLong: 20, lasting: "3h", keep: "6h"},
	}
}

// highestBurn bounds the share of bad probes that a burn rate asks for: with a
// loose objective a multiple of the error budget would exceed 1 and no share
// ever reach it.
const highestBurn = 0.9

// fewestForMedian is how many probes each of two medians must rest on, so that
// a ratio of 1.5 between them is beyond chance: 1 in 20,000 looks where the
// logarithm of TTFT has a standard deviation of 0.5.
const fewestForMedian = 60

// medianWindow is the window of the medians that are compared with those of a
// week before. It holds half as many probes again as are needed, for some fail
// or are skipped. Modules too slow for two hours are not compared at all.
func (o Options) medianWindow() time.Duration {
	const longest = 2 * time.Hour
	window := 30 * time.Minute
	for _, interval := range o.Modules {
		if w := (interval * fewestForMedian * 3 / 2).Round(time.Minute); w <= longest {
			window = max(window, w)
		}
	}
	return window
}

// failureWindow is the window in which an endpoint that is down has failed
// probes: an hour, or more where the slowest module needs it.
func (o Options) failureWindow() time.Duration {
	window := time.Hour
	for _, interval := range o.Modules {
		window = max(window, 4*interval)
	}
	return window
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

// The intervals above which a module, probed by one exporter, has fewer than two probes in the short windows of the fast burns, 5m and 30m.
const (
	longestForBurn1h = 5 * time.Minute / 2
	longestForBurn6h = 30 * time.Minute / 2
)

// Limits returns what the rules cannot detect with these options, each as a line
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

// objective is one thing that probes are judged by.
type objective struct {
	slo      string // value of the label
	name     string // in the names of alerts
	what     string // of a bad probe
	first    string // where to look
	category Category
	// degraded is the severity of the alert on bad minutes; empty is none.
	degraded Severity
}

func objectives() []objective {
	return []objective{
		{
			slo: "availability", name: "Availability", category: Availability, degraded: Critical,
			what:  "probes that did not succeed",
			first: "the failures by reason",
		},
		{
			slo: "ttft", name: "TTFT", category: Latency, degraded: Critical,
			what:  "probes whose first token came later than the objective allows, or never",
			first: "the phases of a probe: connection, queue and prefill have different causes",
		},
		{
			slo: "tpot", name: "TPOT", category: Latency, degraded: Warning,
			what:  "probes whose tokens came slower than the objective allows, or stalled",
			first: "the running requests of the servers and the clocks of their GPUs",
		},
		{
			slo: "e2e", name: "E2E", category: Latency,
			what:  "probes that took longer than the objective allows, or did not succeed",
			first: "which of TTFT and TPOT has grown",
		},
	}
}

// objectivesGroup has the alerts on missed objectives.
func objectivesGroup() Group {
	g := Group{Name: "inference-objectives", Interval: "30s"}
	for _, o := range objectives() {
		if o.degraded != "" {
			g.Rules = append(g.Rules, rules(o.degradedNow()...)...)
		}
		for _, b := range fastBurns() {
			g.Rules = append(g.Rules, o.burns(b, "FastBurn", Critical).rule())
		}
		for _, b := range slowBurns() {
			g.Rules = append(g.Rules, o.burns(b, "SlowBurn", Warning).rule())
		}
	}
	return g
}

// degradedNow finds a share of bad probes of some 15 % in a third of the time
// that burn rates need. With few probes it is no more than a warning.
func (o objective) degradedNow() []alert {
	few, many := o.badMinutes(Warning, "<="), o.badMinutes(o.degraded, ">")
	if o.degraded == Warning {
		many.expr = o.badMinutesExpr()
		return []alert{many}
	}
	return []alert{many, few}
}

func (o objective) badMinutesExpr() string {
	return fmt.Sprintf(`module:inference_probe_slo_bad_minutes:count30m{slo="%[1]s"}
>= on ($K, module, slo)
module:inference_probe_slo_bad_minutes:enough30m
and on ($K, module, slo)
sum by ($K, module, slo) (increase(inference_probe_slo_bad_total{slo="%[1]s"}[10m])) > 0`, o.slo)
}

func (o objective) badMinutes(severity Severity, probes string) alert {
	return alert{
		name: "Inference" + o.name + "DegradedNow", severity: severity, category: o.category,
		expr: fmt.Sprintf(`%s
and on ($K, module, slo)
sum by ($K, module, slo) (increase(inference_probe_slo_eligible_total{slo="%s"}[%dm])) %s %d`,
			o.badMinutesExpr(), o.slo, badMinuteWindow, probes, fewestProbesToPage),
		keep:    "5m",
		summary: fmt.Sprintf("{{ $labels.endpoint }} misses its %s objective for {{ $labels.module }} in {{ $value }} of the last %d minutes.", o.name, badMinuteWindow),
		description: fmt.Sprintf("This counts minutes with %s. There are more of them than chance allows for an endpoint that meets its objective, "+
			"so that users wait now. Look first at %s.", o.what, o.first),
		board: endpointBoard,
	}
}

func (o objective) burns(b burn, kind string, severity Severity) alert {
	ratio := func(window string) string {
		return fmt.Sprintf(`module:inference_probe_slo_bad:ratio_rate%s{slo="%s"}
> on ($K, module, slo)
clamp_max(%s * (1 - module:inference_slo_objective:ratio), %g)`, window, o.slo, b.rate, highestBurn)
	}
	fewest := func(window string, n int) string {
		return fmt.Sprintf("\nand on ($K, module, slo)\nmodule:inference_probe_slo_bad:increase%s >= %d", window, n)
	}
	expr := ratio(b.long) + "\nand on ($K, module, slo)\n" + ratio(b.short) + fewest(b.long, b.fewestLong)
	if b.fewestShort > 0 {
		expr += fewest(b.short, b.fewestShort)
	}
	return alert{
		name: "Inference" + o.name + kind, severity: severity, category: o.category,
		labels: map[string]string{"window": b.long},
		expr:   expr, lasting: b.lasting, keep: b.keep,
		summary: fmt.Sprintf("{{ $labels.endpoint }} missed its %s objective in {{ $value | humanizePercentage }} of the probes with {{ $labels.module }} of the last %s.", o.name, b.long),
		description: fmt.Sprintf("This counts %s. Over %s and over %s they are at least %s times what the objective allows, so that its error budget is spent too early. "+
			"Look first at %s.", o.what, b.long, b.short, b.rate, o.first),
		board: endpointBoard,
	}
}

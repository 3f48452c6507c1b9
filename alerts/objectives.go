package alerts

import (
	"fmt"
	"maps"
	"regexp"
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

// Bad minutes page only if they are also a share of the probes of an hour that is
// a multiple of what the objective allows, and at most highestSpread: what is slow
// for some minutes and then no more stays below it.
const (
	spreadRate    = 5
	highestSpread = 0.25
)

// longestToPage is the interval, as configured, up to which bad minutes page. Above
// it they are for working hours: a short burst fills as many minutes as a lasting
// trouble.
const longestToPage = 40 // seconds

// Noise has a memory where what makes one probe slow makes the next one slow too.
// Bad minutes are then no evidence each, and a share of bad probes varies more. It
// is measured by the stretches of bad minutes in three days: without memory the
// minute after a bad one is as good as any. Where more of them than that and
// excessStretches last longer than a minute, in fewestLongStretches hours at
// least, bad minutes count for nothing, and the shares of burns must be higher. One
// incident, however long, is in fewer hours, since those in its middle are left
// out.
const (
	usualBadMinutes     = 15 // in an hour
	fewestLongStretches = 3
	excessStretches     = "0.1"
)

// burn is a pair of windows over which the error budget is spent too fast.
type burn struct {
	long, short string  // windows
	rate        float64 // of spending, as a multiple of what the objective allows
	remembered  float64 // the same, where noise has a memory
	fewestLong  int     // bad probes in the long window
	minutes     int     // bad minutes of badMinuteWindow at least; 0 is any
	lasting     string  // for
	keep        string  // keep_firing_for
}

// Where objectives are strict and probes rare, one bad probe is a high rate:
// the fewest bad probes keep it from being an alert. Where an hour has just begun, a
// few failures are a large share of it: the bad minutes leave an outage the time to be
// found as one.
func fastBurns() []burn {
	return []burn{
		{long: "1h", short: "5m", rate: 14.4, remembered: 40, fewestLong: 5, minutes: 4},
		{long: "6h", short: "30m", rate: 6, remembered: 15, fewestLong: 10},
	}
}

func slowBurns() []burn {
	return []burn{
		{long: "1d", short: "2h", rate: 3, fewestLong: 20, lasting: "1h", keep: "6h"},
		{long: "3d", short: "6h", rate: 1, fewestLong: 20, lasting: "3h", keep: "6h"},
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

// medianWindow is a window of the medians that are compared with those of a week
// before, and the modules it is for, as matchers: only those of the record, which
// begin with a comma, and modules those of the alert.
type medianWindow struct {
	length        string
	only, modules string
}

// medianWindows returns the windows of medians. Each holds half as many probes
// again as are needed, for some fail or are skipped. Modules that are too slow for
// two hours are not compared: theirs is the first one, in which they are too few.
func (o Options) medianWindows() []medianWindow {
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
	windows := []medianWindow{{length: duration(shortest)}}
	if len(others) > 0 {
		windows[0].modules = fmt.Sprintf("{module!~%q}", strings.Join(others, "|"))
	}
	for _, w := range slices.Sorted(maps.Keys(byWindow)) {
		only := fmt.Sprintf("module=~%q", strings.Join(byWindow[w], "|"))
		windows = append(windows, medianWindow{length: duration(w), only: "," + only, modules: "{" + only + "}"})
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
			"Interval above 150s, %s: they have fewer than two probes in 5m, so that only budgets over 6h and more page for them.",
			strings.Join(names, ", ")))
	}
	if names := o.slowerThan(longestForBurn6h); len(names) > 0 {
		limits = append(limits, fmt.Sprintf(
			"Interval above 15m, %s: budgets over 6h go by one or two probes in 30m, and above 36m never see the ten bad ones that they ask for.",
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

// objective is one thing that probes are judged by. That whole answers take too
// long has no alert: one of the others has grown.
type objective struct {
	slo      string // value of the label
	name     string // in the names of alerts
	what     string // of a bad probe
	first    string // where to look
	category Category
	// threshold shows the latency that is allowed, if there is one.
	threshold bool
	// above are the objectives that explain a miss of this one.
	above []string
}

func objectives() []objective {
	return []objective{
		{
			slo: "availability", name: "Availability", category: Availability,
			what:  "probes that did not succeed",
			first: "the failures by reason",
		},
		{
			slo: "ttft", name: "TTFT", category: Latency, threshold: true, above: []string{"availability"},
			what:  "probes whose first token came later than the objective allows, or never",
			first: "the phases of a probe: connection, queue and prefill have different causes",
		},
		{
			slo: "tpot", name: "TPOT", category: Latency, threshold: true, above: []string{"availability", "ttft"},
			what:  "probes whose tokens came slower than the objective allows, or stalled",
			first: "the running requests of the servers and the clocks of their GPUs",
		},
	}
}

// objectivesGroup has the alerts on missed objectives. Evidence of several kinds
// makes one alert of an endpoint: what is found first pages, and what is found
// later, or of another module, is the same alert. What it records is evaluated before
// the alerts.
func objectivesGroup() Group {
	g := Group{Name: "inference-objectives", Interval: "30s", Rules: degradedTogetherRecorded()}
	for _, o := range objectives() {
		g.Rules = append(g.Rules, rules(o.degradedNow(), o.degradedRarely())...)
		for _, b := range slowBurns() {
			g.Rules = append(g.Rules, rules(o.slowBurn(b))...)
		}
	}
	g.Rules = append(g.Rules, rules(manyEndpointsDegraded())...)
	return g
}

// ownBad is how many probes of a window missed an objective for a reason of its
// own: a probe that fails misses latencies too.
func ownBad(window string) Rule {
	return record("module:inference_probe_slo_own_bad:increase"+window, `(
  sum by (%[1]s) (increase(inference_probe_slo_bad_total{slo=~"ttft|tpot|e2e"}[%[2]s]))
  - on (%[3]s) group_left
  sum by (%[3]s) (increase(inference_probe_slo_bad_total{slo="availability"}[%[2]s]))
)
or on (%[1]s)
sum by (%[1]s) (increase(inference_probe_slo_bad_total[%[2]s]))`, ofModule, window, ofEach)
}

// togetherRecorded is 1 where noise has a memory, and else 0.
func togetherRecorded() Rule {
	sum := func(name string) string {
		return "sum_over_time(module:inference_probe_slo_bad_minutes:" + name + "_each_hour[3d])"
	}
	return record(together, `(%[1]s >= bool %[2]d)
* on (%[3]s)
(
  %[1]s
  > bool on (%[3]s)
  (
    (%[4]s + %[5]s / 60 / count_over_time(module:inference_probe_slo_bad_minutes:count_each_hour[3d]))
    * on (%[3]s)
    %[6]s
  )
)`, sum("long_stretches"), fewestLongStretches, ofModule, excessStretches, sum("count"), sum("stretches"))
}

// together is whether bad minutes hang together; see togetherRecorded.
const together = "module:inference_probe_slo_bad_minutes:together3d"

// limit is the share of bad probes in the windows of a burn that is too high.
func (b burn) limit() Rule {
	return record("module:inference_probe_slo_bad:limit"+b.long, `clamp_max(
  (%[1]g + %[2]g * (%[3]s or on (%[4]s) module:inference_slo_objective:ratio * 0))
  * on (%[4]s)
  (1 - module:inference_slo_objective:ratio),
  %[5]g
)`, b.rate, b.remembered-b.rate, together, ofModule, highestBurn)
}

// burning is the share over the long window where it is too high over both.
func (b burn) burning() string {
	return fmt.Sprintf(`(
    module:inference_probe_slo_bad:ratio_rate%[1]s > on (%[4]s) module:inference_probe_slo_bad:limit%[1]s
    and on (%[4]s)
    module:inference_probe_slo_bad:ratio_rate%[2]s > on (%[4]s) clamp_max(%[5]g * (1 - module:inference_slo_objective:ratio), %[6]g)
    and on (%[4]s)
    module:inference_probe_slo_bad:increase%[1]s >= %[3]d%[7]s
  )`, b.long, b.short, b.fewestLong, ofModule, b.rate, highestBurn, b.lasted())
}

// lasted is the condition on the bad minutes of a burn.
func (b burn) lasted() string {
	if b.minutes == 0 {
		return ""
	}
	return fmt.Sprintf("\n    and on (%s)\n    module:inference_probe_slo_bad_minutes:count30m >= %d", ofModule, b.minutes)
}

// spread is the bad minutes of half an hour where they are more than chance
// explains.
func spread() string {
	return fmt.Sprintf(`(
    module:inference_probe_slo_bad_minutes:count30m >= on (%[1]s) module:inference_probe_slo_bad_minutes:enough30m
    and on (%[1]s)
    module:inference_probe_slo_bad:ratio_rate1h > on (%[1]s) clamp_max(%[2]d * (1 - module:inference_slo_objective:ratio), %[3]g)
    unless on (%[1]s)
    (%[4]s == 1)
  )`, ofModule, spreadRate, highestSpread, together)
}

// seldom is the modules whose interval, as configured, is above a number of
// seconds.
func seldom(seconds int) string {
	return fmt.Sprintf(`(min by (%s) (inference_probe_interval_seconds{concurrency=""}) > %d)`, ofEach, seconds)
}

// allSlow is where every probe of two minutes was too slow and none failed: at
// intervals of up to twenty seconds that is known after as long as an outage is.
const allSlow = "module:inference_probe_slo_all_slow:increase2m"

// degraded is the share of bad probes in five minutes of those that miss an
// objective now by any evidence.
const degraded = "module:inference_probe_slo_degraded:ratio5m"

// degradedRecorded has the evidence. All of it asks that probes are still bad:
// two of ten minutes, or of three and a half where bad ones are many enough for that to be
// certain. So an alert ends soon after its cause, and what is still in the longer
// windows is none.
func degradedRecorded() []Rule {
	hour, quarter := fastBurns()[0], fastBurns()[1]
	return []Rule{
		hour.limit(),
		quarter.limit(),
		record(allSlow, `module:inference_probe_slo_own_bad:increase2m{slo=~"ttft|tpot"}
>= on (%[1]s)
0.99 * sum by (%[1]s) (increase(inference_probe_slo_eligible_total[2m]))
and on (%[1]s)
sum by (%[1]s) (increase(inference_probe_slo_eligible_total[2m])) >= 5
unless on (%[2]s)
sum by (%[2]s) (increase(inference_probe_slo_bad_total{slo="availability"}[2m])) > 0
unless on (%[1]s)
(%[3]s == 1)`, ofModule, ofEach, together),
		record(degraded, `module:inference_probe_slo_bad:ratio_rate5m
and on (%[1]s)
(
  (
  %[2]s
  unless on (%[3]s)
  %[4]s
  )
  or
  %[5]s
  or
  %[6]s
  or
  max_over_time(%[7]s[5m])
)
and on (%[1]s)
(
  (
    module:inference_probe_slo_own_bad:increase3m30s >= 1.5
    unless on (%[3]s)
    %[8]s
  )
  or
  (
    module:inference_probe_slo_own_bad:increase10m >= 1.5
    unless on (%[1]s)
    (
      max_over_time(module:inference_probe_slo_bad:ratio_rate5m[30m]) >= 0.4
      unless on (%[3]s)
      %[8]s
    )
  )
)`, ofModule, spread(), ofEach, seldom(longestToPage), hour.burning(), quarter.burning(), allSlow, seldom(20)),
	}
}

// unlessDegraded leaves out endpoints that miss one of the objectives, or did so
// not long ago: what was counted then is still in the windows of other alerts.
func unlessDegraded(slos ...string) string {
	if len(slos) == 0 {
		return ""
	}
	return fmt.Sprintf("\nunless on ($E)\nmax_over_time(%s{slo=~%q}[%s])", degraded, strings.Join(slos, "|"), soon)
}

// unlessHung leaves out endpoints of which a server hangs or hung not long ago.
const unlessHung = "\nunless on ($E)\nendpoint:inference_server_hung:max" + soon

// promise is the objective in words, as a template.
func (o objective) promise() string {
	text := fmt.Sprintf(`{{ with query (printf "max(module:inference_slo_objective:ratio{endpoint=%%q,slo=\"%s\"})" $labels.endpoint) }} The objective is {{ . | first | value | humanizePercentage }} of the probes`, o.slo)
	if o.threshold {
		text += fmt.Sprintf(`{{ with query (printf "max(inference_slo_threshold_seconds{endpoint=%%q,slo=\"%s\"})" $labels.endpoint) }} within {{ . | first | value | humanizeDuration }}{{ end }}`, o.slo)
	}
	return text + ".{{ end }}"
}

func (o objective) degradedNow() alert {
	a := alert{
		name: "Inference" + o.name + "DegradedNow", severity: Critical, category: o.category,
		expr:    fmt.Sprintf("max by ($E) (%s{slo=%q})", degraded, o.slo) + unlessDown(soon) + unlessHung + unlessTogether + unlessDegraded(o.above...),
		keep:    "30s",
		summary: fmt.Sprintf("{{ $labels.endpoint }} misses its %s objective: {{ $value | humanizePercentage }} of the probes of 5 minutes are bad.", o.name),
		description: fmt.Sprintf("This counts %s. There are more of them than chance allows for an endpoint that meets its objective, "+
			"so that users wait or get errors now.%s%s Look first at %s.", o.what, o.promise(), sinceWhen, o.first),
		board: endpointBoard,
	}
	if len(o.above) > 0 {
		a.lasting = "30s"
	}
	return a
}

// degradedRarely is the evidence of bad minutes where probes are few.
func (o objective) degradedRarely() alert {
	return alert{
		name: "Inference" + o.name + "DegradedNow", severity: Warning, category: o.category,
		expr: fmt.Sprintf(`max by ($E) (
  module:inference_probe_slo_bad:ratio_rate30m{slo=%[1]q}
  and on (%[2]s)
  %[3]s
  and on (%[4]s)
  %[5]s
  and on (%[2]s)
  module:inference_probe_slo_own_bad:increase10m > 0
)`, o.slo, ofModule, spread(), ofEach, seldom(longestToPage)) + unlessDown(soon) + unlessHung + unlessDegraded(append([]string{o.slo}, o.above...)...),
		keep:    "5m",
		summary: fmt.Sprintf("{{ $labels.endpoint }} misses its %s objective: {{ $value | humanizePercentage }} of the probes of %d minutes are bad.", o.name, badMinuteWindow),
		description: fmt.Sprintf("This counts minutes with %s. There are more of them than chance allows for an endpoint that meets its objective, "+
			"but probes are so few that a short trouble looks the same.%s Look first at %s.", o.what, o.promise(), o.first),
		board: endpointBoard,
	}
}

// slowBurn is about the budget of days. What an outage spent has paged.
func (o objective) slowBurn(b burn) alert {
	ratio := func(window string) string {
		return fmt.Sprintf(`module:inference_probe_slo_bad:ratio_rate%s{slo="%s"}
  > on (%s)
  clamp_max(%g * (1 - module:inference_slo_objective:ratio), %g)`, window, o.slo, ofModule, b.rate, highestBurn)
	}
	return alert{
		name: "Inference" + o.name + "SlowBurn", severity: Warning, category: o.category,
		labels: map[string]string{"window": b.long},
		expr: fmt.Sprintf(`max by ($E, module, slo) (
  %[2]s
  and on (%[1]s)
  %[3]s
  and on (%[1]s)
  module:inference_probe_slo_bad:increase%[4]s >= %[5]d
)`, ofModule, ratio(b.long), ratio(b.short), b.long, b.fewestLong) + unlessDown(halfDay),
		lasting: b.lasting, keep: b.keep,
		summary: fmt.Sprintf("{{ $labels.endpoint }} missed its %s objective in {{ $value | humanizePercentage }} of the probes with {{ $labels.module }} of the last %s.", o.name, b.long),
		description: fmt.Sprintf("This counts %s. Over %s and over %s they are at least %g times what the objective allows, so that its error budget is spent too early.%s "+
			"Look first at %s.", o.what, b.long, b.short, b.rate, o.promise(), o.first),
		board: endpointBoard,
	}
}

package alerts

import "fmt"

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

// objectivesGroup has what tells that an objective is missed.
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
		description: fmt.Sprintf("Counted are minutes with %s. There are more of them than chance allows for an endpoint that meets its objective, "+
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
		description: fmt.Sprintf("Counted are %s. Over %s and over %s they are at least %s times what the objective allows, so that its error budget is spent too early. "+
			"Look first at %s.", o.what, b.long, b.short, b.rate, o.first),
		board: endpointBoard,
	}
}

package main

import (
	"fmt"
	"strings"
)

// scope is the label matchers that a board's variables put on every series.
type scope string

// The scopes. Recorded series have no job: several probers of an endpoint add
// up in them. States have no model, which is not known after a restart during an
// outage. Bursts of requests overload an endpoint on purpose: ofProbes leaves
// them out, for what shows how users are served.
const (
	ofEndpoint scope = `job=~"$job",model=~"$model",endpoint=~"$endpoint"`
	ofProbes   scope = ofEndpoint + `,concurrency=""`
	ofState    scope = `job=~"$job",endpoint=~"$endpoint"`
	ofRecorded scope = `model=~"$model",endpoint=~"$endpoint"`
	ofModel    scope = `model=~"$model"`
	ofGPU      scope = `job=~"$job",instance=~"$instance",gpu=~"$gpu"`
	ofMachine  scope = `job=~"$job",instance=~"$instance"`
	ofJob      scope = `job=~"$job"`
)

// of returns the selector of a series in the scope, with further matchers.
func (s scope) of(name string, matchers ...string) string {
	return name + "{" + strings.Join(append([]string{string(s)}, matchers...), ",") + "}"
}

// sumRate is the rate per second of a counter, added up by labels.
func sumRate(by, window, name string, s scope, matchers ...string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s[%s]))", by, s.of(name, matchers...), window)
}

// sumIncrease is the increase of a counter, added up by labels.
func sumIncrease(by, window, name string, s scope, matchers ...string) string {
	return fmt.Sprintf("sum by (%s) (increase(%s[%s]))", by, s.of(name, matchers...), window)
}

// quantile is a quantile of a histogram, whether Prometheus stores it native
// or classic; native wins where both are stored. Of no observations there is none:
// the comparison drops NaN.
func quantile(q float64, by, window, name string, s scope, matchers ...string) string {
	return fmt.Sprintf("histogram_quantile(%v, %s) >= 0 or histogram_quantile(%v, %s) >= 0",
		q, sumRate(by, window, name, s, matchers...),
		q, sumRate(by+", le", window, name+"_bucket", s, matchers...))
}

// mean is the mean of a histogram, native or classic.
func mean(by, window, name string, s scope, matchers ...string) string {
	return fmt.Sprintf("histogram_avg(%s) >= 0 or %s",
		sumRate(by, window, name, s, matchers...), classicMean(by, window, name, s, matchers...))
}

// classicMean is the mean of a summary or of a histogram that is never native,
// where there were observations.
func classicMean(by, window, name string, s scope, matchers ...string) string {
	return fmt.Sprintf("%s / (%s > 0)",
		sumRate(by, window, name+"_sum", s, matchers...), sumRate(by, window, name+"_count", s, matchers...))
}

// classicQuantile is a quantile of a histogram that is never native, as those of
// the servers are. One inside the first bucket is not known: there is no line then.
func classicQuantile(q float64, by, window, name string, s scope, matchers ...string) string {
	buckets := sumRate(by+", le", window, name+"_bucket", s, matchers...)
	return fmt.Sprintf("histogram_quantile(%v, %s) and (min by (%s) (%s) < %v * max by (%s) (%s))", q, buckets, by, buckets, q, by, buckets)
}

// distribution is a histogram as a heatmap wants it: classic or, where there is
// none, native, which Grafana 10 draws as one band. Both at once would draw every
// observation twice.
func distribution(name string, s scope, matchers ...string) string {
	m := s.of(name, matchers...)
	c := s.of(name+"_bucket", matchers...)
	return fmt.Sprintf("sum by (le) (increase(%s[$__rate_interval])) or on () sum(increase(%s[$__rate_interval]))", c, m)
}

// perServer takes what several exporters read from one server's page once, and
// adds the servers up. The expression has a label server.
func perServer(by, expr string) string {
	return fmt.Sprintf("sum by (%s) (max by (endpoint, model, server) (%s))", by, expr)
}

// lowest is below every value: the start of a colour that has no lower end.
const lowest = -1e12

// judged groups what is recorded of objectives, of which each module has its own.
const judged = "endpoint, model, module, slo"

// ofBudget is how many times what its objective allows a share of bad probes is,
// by endpoint, module and objective.
func ofBudget(share string) string {
	return "max by (" + judged + ") (" + share + ") / on (" + judged + ") (1 - min by (" + judged + ") (" + ofRecorded.of("module:inference_slo_objective:ratio") + "))"
}

// budgetLag is what every panel of budgetLeft says about its age and its sum.
const budgetLag = " It consists of whole hours, so that it lags by up to 1 h. Hours without probes, as those before the endpoint was added, use none of it. Of several modules the worst counts."

// budgetLeft is the part of the error budget of 30 days that is left, by
// endpoint, module and objective. The recorded ratio is of the hours that
// Prometheus has; the budget is of 720.
func budgetLeft() string {
	hours := "max by (" + judged + ") (count_over_time(" + ofRecorded.of("module:inference_probe_slo_eligible:increase_each_hour") + "[30d]))"
	return "1 - " + ofBudget(ofRecorded.of("module:inference_probe_slo_bad:ratio30d")) + " * on (" + judged + ") clamp_max(" + hours + " / 720, 1)"
}

// worst keeps the n series of expr that are highest over the time range; the
// choice is made once, so that lines do not come and go.
func worst(n int, by, expr, choice string) string {
	return fmt.Sprintf("%s and on (%s) topk(%d, max by (%s) (%s))", expr, by, n, by, choice)
}

// budgetSteps colour what is left of an error budget.
func budgetSteps() []Step { return []Step{{lowest, "red"}, {0.25, "yellow"}, {0.5, "green"}} }

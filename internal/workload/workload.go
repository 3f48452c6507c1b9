// Package workload is what the kinds of workload have in common: what a module may ask, how
// the answers are judged, and what many results show together. Each kind has a folder of its
// own here, with all that is known of it; prober.Workloads lists them.
package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Workload is one kind of workload.
type Workload struct {
	Kinds []Kind // what modules may ask
	// Rounds are how many questions the runs of a module ask at a time; nil where that is one.
	Rounds func(m *config.Module) []Round
	// Estimate returns what draws conclusions from the results of an endpoint and a module; nil is none.
	Estimate func(e *config.Endpoint, m *config.Module) Estimate
	Finding  Finding         // the zero value of its findings
	Metrics  func() []Metric // the families of its findings, in the order of the documentation
}

// Estimate draws conclusions from the results of one endpoint, module and model. A statement that the results do not
// support is not made. Its methods are called one after the other.
type Estimate interface {
	// Observe adds the results of one run.
	Observe(results []*result.Result, now time.Time)
	// Finding returns what all results show together; nil is nothing.
	Finding(now time.Time) Finding
}

// Taker is an Estimate that also draws conclusions from runs that are no probes.
type Taker interface {
	// Take adds a run; what is not of its kind changes nothing.
	Take(run any, now time.Time)
}

// Learner is an Estimate that goes on after a restart. Others learn again within minutes, or show the latest run only.
type Learner interface{ Learned() []Learned }

// Learned is a part of an Estimate that goes on after a restart.
type Learned struct {
	// Part is its name, and Version that of its data: another version is not read.
	Part    string
	Version int
	// Save returns what is encoded as data; nil is nothing. Restore takes it up; an error leaves all as it was.
	Save    func() any
	Restore func(data []byte) error
}

// Decoded returns Learned.Restore of what takes the data decoded from JSON.
func Decoded[T any](restore func(saved *T) error) func(data []byte) error {
	return func(data []byte) error {
		saved := new(T)
		if err := json.Unmarshal(data, saved); err != nil {
			return err
		}
		return restore(saved)
	}
}

// Finding is what results show together. It is never changed once made. In JSON it is an object, whose fields are those
// of one object with those of the other findings, as the API has it. What is not known is absent.
type Finding interface {
	// Figures are what a terminal and the page of the endpoint show of it.
	Figures() []Figure
}

// Figure is something that people see of a finding: a value, and in a note what it is.
type Figure struct {
	Label string `json:"label"`
	Value string `json:"value"`
	Note  string `json:"note,omitempty"`
	// Bad asks for a look.
	Bad bool `json:"bad,omitempty"`
}

// Several is a Finding with series of its own, such as one for each burst.
type Several interface {
	// Series returns the labels of each of them: those of Metric.Each.
	Series() [][]Label
}

// Label is a label of a metric and its value.
type Label struct{ Name, Value string }

// News is a Finding that says what has changed since the one before, nil for none, of a model.
type News interface {
	News(before Finding, model string) []Line
}

// Line is a line of the log, and a note on the page of the endpoint.
type Line struct {
	Warn          bool
	Message, Note string
	Args          []any // of the log
}

// Metric is a family of gauges, or of counters where its name ends in _total.
type Metric struct {
	// Name comes without the prefix that it has in common with all families of probes.
	Name, Unit, Help string
	// Label is a label with the closed set Values, of which each has a sample in each series; "" is none.
	Label  string
	Values []string
	Each   []string // the labels of the series of a finding that is Several; nil is one series
	// Value returns the value of sample i: by index in Values or in the series of the finding, or in the Values of
	// each of the series, one after the other. What is no finite number is absent.
	Value func(f Finding, i int) float64
}

// Of returns Metric.Value of findings of one type.
func Of[F Finding](get func(f F, i int) float64) func(Finding, int) float64 {
	return func(f Finding, i int) float64 { return get(f.(F), i) }
}

// One returns a metric with one value.
func One[F Finding](name, unit, help string, get func(f F) float64) Metric {
	return Metric{Name: name, Unit: unit, Help: help, Value: func(f Finding, _ int) float64 { return get(f.(F)) }}
}

// Bounded returns a metric of an estimate with its bounds.
func Bounded[F Finding](name, unit, help string, get func(f F) *Interval) Metric {
	return Metric{
		Name: name, Unit: unit, Help: help, Label: "stat", Values: IntervalStats(),
		Value: func(f Finding, stat int) float64 { return get(f.(F)).at(stat) },
	}
}

// Known returns a value; NaN where it is not known.
func Known(v *float64) float64 { return Part(v, func(v *float64) float64 { return *v }) }

// Part returns a value of something; NaN where that is not known.
func Part[T any](of *T, get func(*T) float64) float64 {
	if of == nil {
		return math.NaN()
	}
	return get(of)
}

// If returns a value; NaN unless it is known.
func If(known bool, v float64) float64 {
	if known {
		return v
	}
	return math.NaN()
}

// Positive returns a value; NaN unless it is above 0.
func Positive(v float64) float64 { return If(v > 0, v) }

// Number returns 1 for what holds, and else 0.
func Number(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// Unix returns a time in seconds since 1970; NaN of the zero time.
func Unix(t time.Time) float64 { return If(!t.IsZero(), float64(t.UnixNano())/1e9) }

// Interval is an estimate with the bounds that it lies between with 95 % confidence.
type Interval struct {
	Value float64 `json:"estimate"`
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

// IntervalStats are the values of the label stat of a metric of intervals.
func IntervalStats() []string { return []string{"estimate", "lower", "upper"} }

// at returns the value of an index in IntervalStats; NaN where there is no estimate.
func (i *Interval) at(stat int) float64 {
	if i == nil {
		return math.NaN()
	}
	return [...]float64{i.Value, i.Lower, i.Upper}[stat]
}

// Figure returns the estimate with the bounds that it lies between.
func (i *Interval) Figure(label, unit string, render func(float64) string, note string) Figure {
	return Figure{Label: label, Value: render(i.Value) + unit, Note: "(" + render(i.Lower) + " to " + render(i.Upper) + ")" + note}
}

// Findings are what the results of one endpoint and module show together. They are never changed once made.
type Findings struct {
	Model string    // the model that they are about; "" is not known
	All   []Finding // in the order of the workloads, nil for those with nothing to say
}

// In returns the finding of a type; false where there is none.
func In[F Finding](all *Findings) (found F, ok bool) {
	if all != nil {
		for _, f := range all.All {
			if found, ok = f.(F); ok {
				break
			}
		}
	}
	return found, ok
}

// Figures returns those of all findings.
func (f *Findings) Figures() []Figure {
	var all []Figure
	for _, finding := range f.All {
		if finding != nil {
			all = append(all, finding.Figures()...)
		}
	}
	return all
}

// MarshalJSON writes all findings as one object.
func (f *Findings) MarshalJSON() ([]byte, error) {
	var all [][]byte
	for _, finding := range f.All {
		if finding == nil {
			continue
		}
		text, err := json.Marshal(finding)
		if err != nil {
			return nil, err
		}
		if fields := text[1 : len(text)-1]; len(fields) > 0 {
			all = append(all, fields)
		}
	}
	return fmt.Appendf(nil, "{%s}", bytes.Join(all, []byte(","))), nil
}

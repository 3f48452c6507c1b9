package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-exporter/inference_exporter/alerts"
)

// defaultGroupInterval is Prometheus' evaluation_interval in the simulation,
// for groups that set none of their own.
const defaultGroupInterval = 30 * time.Second

// rule is a recording or an alerting rule of a rule file.
type rule struct {
	name       string
	alert      bool
	expr       string
	labels     labels.Labels
	hold, keep time.Duration
	group      int           // rules of one group are evaluated at the same times
	interval   time.Duration // of the group
	selects    []string      // the metrics that the expression names
}

// remembers reports whether the rule looks at what it recorded before. It finds
// nothing in a span if it finds nothing with what was recorded until the span.
func (r rule) remembers() bool { return slices.Contains(r.selects, r.name) }

// rulesFor returns the paging alerts that the exporter makes for probes with
// an interval, with the recording rules that they need. Each endpoint is a cluster
// of its own: those of a simulation are many times the same and have nothing in
// common.
func rulesFor(interval time.Duration) ([]rule, error) {
	o := alerts.Options{Keep: []string{"endpoint"}, Modules: map[string]time.Duration{"interactive": interval}, Sets: alerts.Sets()}
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

// parseRules reads rule files in the order in which they are evaluated.
func parseRules(files ...[]byte) ([]rule, error) {
	var rules []rule
	group := 0
	p := parser.NewParser(parser.Options{})
	for _, file := range files {
		parsed, errs := rulefmt.Parse(file, false, model.UTF8Validation, p, slog.New(slog.DiscardHandler))
		if err := errors.Join(errs...); err != nil {
			return nil, fmt.Errorf("parse rules: %w", err)
		}
		for _, g := range parsed.Groups {
			group++
			for _, r := range g.Rules {
				read, err := newRule(p, r)
				if err != nil {
					return nil, err
				}
				read.group = group
				read.interval = defaultGroupInterval
				if g.Interval > 0 {
					read.interval = time.Duration(g.Interval)
				}
				rules = append(rules, read)
			}
		}
	}
	return rules, nil
}

func newRule(p parser.Parser, r rulefmt.Rule) (rule, error) {
	read := rule{
		name:   r.Record,
		expr:   r.Expr,
		labels: labels.FromMap(r.Labels),
		hold:   time.Duration(r.For),
		keep:   time.Duration(r.KeepFiringFor),
	}
	if r.Alert != "" {
		read.name, read.alert = r.Alert, true
	}
	expr, err := p.ParseExpr(r.Expr)
	if err != nil {
		return rule{}, fmt.Errorf("parse rule %s: %w", read.name, err)
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			read.selects = append(read.selects, s.Name)
		}
		return nil
	})
	return read, nil
}

// paging returns the alerts that page, with the recording rules that they need,
// each after those. Alerts about what is not simulated, such as GPUs, find no series
// and stay silent.
func paging(rules []rule) []rule {
	needed := map[string]bool{}
	wanted := func(r rule) bool {
		return r.alert && r.labels.Get("severity") == "critical" || !r.alert && needed[r.name]
	}
	for again := true; again; {
		before := len(needed)
		for _, r := range rules {
			if wanted(r) {
				for _, name := range r.selects {
					needed[name] = true
				}
			}
		}
		again = len(needed) > before
	}
	return ordered(slices.DeleteFunc(slices.Clone(rules), func(r rule) bool { return !wanted(r) }))
}

// ordered puts each rule after those whose records it selects, for it is evaluated many
// times at once. Rules that need each other stay in their order.
func ordered(rules []rule) []rule {
	done := make([]rule, 0, len(rules))
	for left := slices.Clone(rules); len(left) > 0; {
		i := slices.IndexFunc(left, func(r rule) bool {
			return !slices.ContainsFunc(left, func(o rule) bool { return !o.alert && o.name != r.name && slices.Contains(r.selects, o.name) })
		})
		i = max(i, 0)
		done = append(done, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return done
}

// staleMark is the sample by which a Prometheus ends a series.
var staleMark = math.Float64frombits(value.StaleNaN)

// page is the moment at which an alert began to fire.
type page struct {
	alert    string
	endpoint string
	at       int64 // milliseconds
}

// instance is one alert of a rule, identified by its labels, with the state
// that `for` and `keep_firing_for` give it. Its zero value is inactive.
type instance struct {
	endpoint string
	active   bool // pending or firing
	firing   bool
	since    int64 // of active
	gone     int64 // when the condition ended that keep_firing_for outlasts; 0 is not
}

// step takes one evaluation at t: holds reports whether the condition did. It
// reports whether the alert began to fire. All times are in milliseconds.
func (a *instance) step(t int64, holds bool, hold, keep int64) bool {
	if !holds {
		a.miss(t, keep)
		return false
	}
	a.gone = 0
	if !a.active {
		a.active, a.since = true, t
	}
	if a.firing || t-a.since < hold {
		return false
	}
	a.firing = true
	return true
}

// miss takes an evaluation at which the condition did not hold.
func (a *instance) miss(t, keep int64) {
	if a.firing && keep > 0 {
		if a.gone == 0 {
			a.gone = t
		}
		if t-a.gone < keep {
			return
		}
	}
	a.active, a.firing, a.gone = false, false, 0
}

// evaluator evaluates rules over a store as a Prometheus would. It asks the
// engine for many evaluations of one rule at once, which gives the results of
// as many single ones and takes a fraction of the time.
type evaluator struct {
	engine *promql.Engine
	store  *store
	rules  []rule
	phases map[int]int64          // by group: its evaluations are at this offset, milliseconds
	alerts []map[string]*instance // by rule: its alerts by their labels
	last   []map[string]bool      // by rule: what the latest evaluation recorded
}

func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples:    200e6,
		Timeout:       time.Hour,
		LookbackDelta: 5 * time.Minute,
		// Boards ask for the worst of a time range at its end.
		EnableAtModifier: true,
		Parser:           parser.NewParser(parser.Options{}),
	})
}

// newEvaluator takes the offset of each group's evaluations from phase.
func newEvaluator(engine *promql.Engine, s *store, rules []rule, phase func(interval int64) int64) *evaluator {
	e := &evaluator{
		engine: engine, store: s, rules: rules,
		phases: map[int]int64{},
		alerts: make([]map[string]*instance, len(rules)),
		last:   make([]map[string]bool, len(rules)),
	}
	for i, r := range rules {
		if _, ok := e.phases[r.group]; !ok {
			e.phases[r.group] = phase(r.interval.Milliseconds())
		}
		e.alerts[i] = map[string]*instance{}
		e.last[i] = map[string]bool{}
	}
	return e
}

// advance evaluates all rules at their times in [from, to), milliseconds, and
// returns the alerts that began to fire.
func (e *evaluator) advance(ctx context.Context, from, to int64) ([]page, error) {
	var pages []page
	for i, r := range e.rules {
		step := r.interval.Milliseconds()
		first := e.phases[r.group] + (from-e.phases[r.group]+step-1)/step*step
		if first >= to {
			continue
		}
		last := first + (to-1-first)/step*step
		found, err := e.query(ctx, r, first, last)
		switch {
		case err != nil:
		case r.alert:
			pages = append(pages, e.fire(i, found, first, last)...)
		case r.remembers() && len(found) > 0:
			err = e.recordEach(ctx, i, first, last)
		default:
			e.record(i, found, first, last)
		}
		if err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// recordEach stores what a recording rule that looks at its own past finds, one
// evaluation after the other.
func (e *evaluator) recordEach(ctx context.Context, i int, first, last int64) error {
	r := e.rules[i]
	for t := first; t <= last; t += r.interval.Milliseconds() {
		found, err := e.query(ctx, r, t, t)
		if err != nil {
			return err
		}
		e.record(i, found, t, t)
	}
	return nil
}

func (e *evaluator) query(ctx context.Context, r rule, first, last int64) (promql.Matrix, error) {
	q, err := e.engine.NewRangeQuery(ctx, e.store, nil, r.expr, time.UnixMilli(first), time.UnixMilli(last), r.interval)
	if err != nil {
		return nil, fmt.Errorf("query of rule %s: %w", r.name, err)
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, fmt.Errorf("query of rule %s: %w", r.name, result.Err)
	}
	found, err := result.Matrix()
	if err != nil {
		return nil, fmt.Errorf("query of rule %s: %w", r.name, err)
	}
	// The engine takes the points back when the query is closed.
	kept := make(promql.Matrix, len(found))
	for i, s := range found {
		if len(s.Histograms) > 0 {
			return nil, errors.New("query of rule " + r.name + " gives histograms")
		}
		kept[i] = promql.Series{Metric: s.Metric, Floats: append([]promql.FPoint(nil), s.Floats...)}
	}
	return kept, nil
}

// record stores what a recording rule found. A series that is no longer found
// is marked as stale.
func (e *evaluator) record(i int, found promql.Matrix, first, last int64) {
	r := e.rules[i]
	step := r.interval.Milliseconds()
	now := map[string]bool{}
	seen := map[string]bool{}
	for _, s := range found {
		lset := recordedLabels(r, s.Metric)
		key := lset.String()
		seen[key] = true
		to := e.store.find(lset)
		if to == nil {
			to = e.store.add(lset, nil)
		}
		points, before := s.Floats, e.last[i][key]
		for t := first; t <= last; t += step {
			switch {
			case len(points) > 0 && points[0].T == t:
				to.append(t, points[0].F)
				points, before = points[1:], true
			case before:
				to.append(t, staleMark)
				before = false
			}
		}
		now[key] = before
	}
	for _, s := range e.store.byName[r.name] {
		if key := s.labels.String(); e.last[i][key] && !seen[key] {
			s.append(first, staleMark)
		}
	}
	e.last[i] = now
}

func recordedLabels(r rule, found labels.Labels) labels.Labels {
	b := labels.NewBuilder(found).Set(labels.MetricName, r.name)
	r.labels.Range(func(l labels.Label) { b.Set(l.Name, l.Value) })
	return b.Labels()
}

// fire moves the alerts of a rule along and returns those that began to fire.
func (e *evaluator) fire(i int, found promql.Matrix, first, last int64) []page {
	r := e.rules[i]
	step := r.interval.Milliseconds()
	points := map[string][]promql.FPoint{}
	for _, s := range found {
		key := s.Metric.DropReserved(func(name string) bool { return name == labels.MetricName }).String()
		points[key] = s.Floats
		if e.alerts[i][key] == nil {
			e.alerts[i][key] = &instance{endpoint: s.Metric.Get("endpoint")}
		}
	}
	var pages []page
	for key, a := range e.alerts[i] {
		rest := points[key]
		for t := first; t <= last; t += step {
			holds := len(rest) > 0 && rest[0].T == t
			if holds {
				rest = rest[1:]
			}
			if a.step(t, holds, r.hold.Milliseconds(), r.keep.Milliseconds()) {
				pages = append(pages, page{alert: r.name, endpoint: a.endpoint, at: t})
			}
		}
	}
	return pages
}

package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	promrules "github.com/prometheus/prometheus/rules"
)

// flapping are rules whose results come and go: what is recorded ends, and
// keep_firing_for has something to outlast.
const flapping = `
groups:
  - name: flapping
    interval: 20s
    rules:
      - record: test:bad:increase1m
        expr: sum by (endpoint) (increase(inference_probe_slo_bad_total{slo="ttft"}[1m])) > 0
      - record: test:bad:since
        expr: (test:bad:since and on (endpoint) test:bad:increase1m) or test:bad:increase1m * 0 + time()
  - name: flapping-alerts
    interval: 20s
    rules:
      - alert: Flaps
        expr: test:bad:increase1m > 0
        labels: {severity: critical}
      - alert: Lasts
        expr: time() - test:bad:since > 90
        labels: {severity: critical}
      - alert: Keeps
        expr: test:bad:increase1m > 0
        keep_firing_for: 2m
        labels: {severity: critical}
      - alert: Holds
        expr: test:bad:increase1m > 0
        for: 1m
        keep_firing_for: 1m
        labels: {severity: critical}
`

// TestAgreesWithPrometheus evaluates the same rules over the same series twice:
// many times at once, as the simulation does, and one time after the other with
// the rules of Prometheus itself.
func TestAgreesWithPrometheus(t *testing.T) {
	t.Parallel()
	const interval = 15 * time.Second
	const from, onset, end = epoch, epoch + 40*60_000, epoch + 100*60_000
	const piece = 3*60_000 + 10_000 // evaluated at once; results come and go between two of them
	chosen, err := rulesFor(interval)
	if err != nil {
		t.Fatal(err)
	}
	more, err := parseRules([]byte(flapping))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range more {
		r.group += 1000 // groups of their own
		chosen = append(chosen, r)
	}
	pauses := map[int][]pause{
		3: {{from: onset, to: onset + 10*60_000}},
		4: {{from: onset, to: onset + 10*60_000, stays: true}},
	}
	fill := func() *store {
		s := newStore()
		for i, after := range []behavior{
			{outage: outageRefused},
			{shares: shares{ttft: 0.5, failed: 0.2}},
			{shares: shares{ttft: 0.15, failed: 0.15}, spell: time.Minute},
			{},
			{},
		} {
			addEndpoint(s, endpoint{name: fmt.Sprint(i), interval: interval, pauses: pauses[i]}, random(7, i), from, end, func(start int64) behavior {
				if start < onset || start > onset+30*60_000 {
					return behavior{shares: shares{ttft: 0.01}}
				}
				return after
			})
		}
		return s
	}
	phase := func(interval int64) int64 { return 7_000 % interval }
	e := newEvaluator(newEngine(), fill(), chosen, phase)
	var got []page
	for at := int64(from); at < end; at += piece {
		pages, err := e.advance(t.Context(), at, min(end, at+piece))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, pages...)
	}
	sortPages(got)
	want := prometheusPages(t, fill(), chosen, from, end, phase)
	if !slices.Equal(got, want) {
		t.Errorf("pages\n%v, want\n%v", got, want)
	}
	names := map[string]bool{}
	for _, p := range want {
		names[p.alert] = true
	}
	if len(names) < 8 {
		t.Errorf("only %v fired: the comparison says little", names)
	}
}

// prometheusPages steps through time in steps of a second and evaluates each
// rule when it is due, by the code of Prometheus.
func prometheusPages(t *testing.T, s *store, chosen []rule, from, end int64, phase func(int64) int64) []page {
	t.Helper()
	query := promrules.EngineQueryFunc(newEngine(), s)
	p := parser.NewParser(parser.Options{})
	evals := make([]func(at int64) []page, len(chosen))
	for i, r := range chosen {
		expr, err := p.ParseExpr(r.expr)
		if err != nil {
			t.Fatal(err)
		}
		if r.alert {
			evals[i] = alertStep(t, r, expr, query)
		} else {
			evals[i] = recordStep(t, s, r, expr, query)
		}
	}
	var pages []page
	for at := from; at < end; at += 1000 {
		for i, r := range chosen {
			if (at-phase(r.interval.Milliseconds()))%r.interval.Milliseconds() == 0 {
				pages = append(pages, evals[i](at)...)
			}
		}
	}
	sortPages(pages)
	return pages
}

func recordStep(t *testing.T, s *store, r rule, expr parser.Expr, query promrules.QueryFunc) func(int64) []page {
	rule := promrules.NewRecordingRule(r.name, expr, r.labels)
	last := map[*series]bool{}
	return func(at int64) []page {
		found, err := rule.Eval(context.Background(), 0, time.UnixMilli(at), query, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		now := map[*series]bool{}
		for _, f := range found {
			to := s.find(f.Metric)
			if to == nil {
				to = s.add(f.Metric, nil)
			}
			to.append(at, f.F)
			now[to] = true
		}
		for gone := range last {
			if !now[gone] {
				gone.append(at, staleMark)
			}
		}
		last = now
		return nil
	}
}

func alertStep(t *testing.T, r rule, expr parser.Expr, query promrules.QueryFunc) func(int64) []page {
	rule := promrules.NewAlertingRule(r.name, expr, r.hold, r.keep, r.labels, labels.EmptyLabels(), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
	return func(at int64) []page {
		if _, err := rule.Eval(context.Background(), 0, time.UnixMilli(at), query, nil, 0); err != nil {
			t.Fatal(err)
		}
		var pages []page
		for _, a := range rule.ActiveAlerts() {
			if a.State == promrules.StateFiring && a.FiredAt.UnixMilli() == at {
				pages = append(pages, page{alert: r.name, endpoint: a.Labels.Get("endpoint"), at: at})
			}
		}
		return pages
	}
}

// Evaluations are 30 s apart; "x" holds, "." does not. The marks of fires are
// those of the evaluations at which an alert begins to fire.
func TestInstanceStep(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		hold, keep int64 // seconds
		holds      string
		fires      string
	}{
		{name: "at once", holds: "..x..", fires: "..!.."},
		{name: "once while it lasts", holds: "xxxx", fires: "!..."},
		{name: "again without keep", holds: "x.x", fires: "!.!"},
		{name: "for is a time, not a number", hold: 60, holds: "xxxx", fires: "..!."},
		{name: "for starts again after a gap", hold: 60, holds: "xx.xxx", fires: ".....!"},
		{name: "keep outlasts a gap", keep: 60, holds: "x.x.x", fires: "!...."},
		{name: "keep runs out", keep: 60, holds: "x...x", fires: "!...!"},
		{name: "keep is counted from the end of each gap", keep: 60, holds: "x..x..x", fires: "!......"},
		{name: "keep does not hold what was pending", hold: 30, keep: 300, holds: "x.xx", fires: "...!"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var a instance
			got := ""
			for i, c := range tt.holds {
				if a.step(int64(i+1)*30_000, c == 'x', tt.hold*1000, tt.keep*1000) {
					got += "!"
				} else {
					got += "."
				}
			}
			if got != tt.fires {
				t.Errorf("fires %q, want %q", got, tt.fires)
			}
		})
	}
}

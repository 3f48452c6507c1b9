package collector

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func TestSelf(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	s := NewSelf(reg)
	s.SetEndpoints(3)
	s.ProbesInFlight(1)
	s.ProbesInFlight(1)
	s.ProbesInFlight(-1)
	s.Missed(result.SkipOverrun)
	s.Missed("budget")
	s.Missed("context_length")
	s.Missed("no such reason")
	s.Scraped(20*time.Millisecond, 1<<20)

	r := success()
	r.StartLag = 2 * time.Millisecond
	r.Imprecise = true
	r.Events = []result.Event{
		{ReadLag: 100 * time.Microsecond, Merged: true}, {ReadLag: result.Absent}, {ReadLag: 0},
	}
	s.Observe(r)
	r = failure()
	r.StartLag = result.Absent
	r.Clock = result.ClockProcess
	s.Observe(r) // nobody scheduled it: no lag; and no token: no clock
	r.Events = []result.Event{{ReadLag: result.Absent}}
	s.Observe(r)

	f := func(name, label string, want float64) {
		t.Helper()
		if got, ok := valueOf(t, reg, namePrefix+"exporter_"+name, label); !ok || got != want {
			t.Errorf("%s{%s} = %v, %v, want %v", name, label, got, ok, want)
		}
	}
	f("endpoints", "", 3)
	f("probes_in_flight", "", 1)
	f("missed_runs_total", "overrun", 1)
	f("missed_runs_total", "limit", 0)
	f("missed_runs_total", "budget", 1)
	f("missed_runs_total", "context_length", 1)
	f("probes_total", "kernel", 1)
	f("probes_total", "process", 1)
	f("imprecise_probes_total", "", 1)
	f("merged_events_total", "", 1)
	f("schedule_lag_seconds", "", 0.002)
	f("read_lag_seconds", "", 0.0001)
	f("scrape_duration_seconds", "", 0.02)
	f("scrape_size_bytes", "", 1<<20)
	if _, ok := valueOf(t, reg, "go_goroutines", ""); !ok {
		t.Error("no Go runtime metrics")
	}
}

// A budget has series for what it limits, which are read again for each page.
func TestWatchBudget(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	s := NewSelf(reg)
	tokens, usd := 0.5, -1.0
	s.WatchBudget(func() (float64, float64) { return tokens, usd })
	f := func(label string, want float64, present bool) {
		t.Helper()
		if got, ok := valueOf(t, reg, namePrefix+"exporter_budget_used_ratio", label); got != want || ok != present {
			t.Errorf("%s = %v, %v, want %v, %v", label, got, ok, want, present)
		}
	}
	f("tokens", 0.5, true)
	f("usd", 0, false)
	tokens, usd = -1, 1.25
	f("tokens", 0, false)
	f("usd", 1.25, true)
}

// valueOf returns the value of a counter or gauge, or the sum of a histogram,
// by the value of its only label.
func valueOf(t *testing.T, g prometheus.Gatherer, name, label string) (float64, bool) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() != name || label != "" && m.Label[0].GetValue() != label {
				continue
			}
			switch f.GetType() {
			case dto.MetricType_HISTOGRAM:
				return m.Histogram.GetSampleSum(), true
			case dto.MetricType_COUNTER:
				return m.Counter.GetValue(), true
			}
			return m.Gauge.GetValue(), true
		}
	}
	return 0, false
}

func TestReloaded(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := NewSelf(reg)
	f := func(ok bool, at time.Time, wantOK, wantAt float64) {
		t.Helper()
		s.Reloaded(ok, at)
		gotOK, _ := valueOf(t, reg, namePrefix+"exporter_config_last_reload_successful", "")
		gotAt, _ := valueOf(t, reg, namePrefix+"exporter_config_last_reload_success_timestamp_seconds", "")
		if gotOK != wantOK || gotAt != wantAt {
			t.Errorf("after %v at %v: %v and %v, want %v and %v", ok, at, gotOK, gotAt, wantOK, wantAt)
		}
	}
	first := time.UnixMilli(1_795_000_000_250)
	f(true, first, 1, 1_795_000_000.25)
	f(false, first.Add(time.Hour), 0, 1_795_000_000.25) // the active one is still the first
	f(true, first.Add(2*time.Hour), 1, 1_795_007_200.25)
}

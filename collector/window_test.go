package collector

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// windowLab is the window of a series on a clock that the test sets.
type windowLab struct {
	t     *testing.T
	now   time.Time
	store *Probes
	s     *Series
}

func newWindowLab(t *testing.T) *windowLab {
	t.Helper()
	l := &windowLab{t: t, now: epoch}
	l.store = NewProbes(func() time.Time { return l.now })
	l.s = l.store.Open(result.SeriesID{Endpoint: "e", Module: "i", Prefix: "cold"}, SeriesOptions{Objectives: series.NewObjectives(config.SLO{Objective: 0.99}), Log: new(series.Log)})
	return l
}

// probe adds a probe now; a negative TTFT is a failure.
func (l *windowLab) probe(ttft time.Duration) {
	r := success()
	r.Start, r.Timing.TTFT = l.now, ttft
	if ttft < 0 {
		r.Outcome = result.TimeoutFirstToken
	}
	l.s.Observe(r)
	judge(l.s, r)
}

// expect compares the page: samples, p50, p99, p99_lower and p99_upper.
func (l *windowLab) expect(samples int, want ...string) {
	l.t.Helper()
	all := map[string]string{"probe_ttft_window_samples": fmt.Sprint(samples)}
	for i, stat := range []string{"p50", "p99", "p99_lower", "p99_upper"} {
		all[fmt.Sprintf("probe_ttft_window_seconds stat=%q", stat)] = want[i]
	}
	has(l.t, l.store, all)
}

func TestWindow(t *testing.T) {
	l := newWindowLab(t)
	l.s.setServed(api.Generation, "m")
	l.expect(0, "", "", "", "")
	for i := range 299 { // 1 to 299 ms, every 10 s, in no order
		l.probe(time.Duration(i*100%299+1) * time.Millisecond)
		l.now = l.now.Add(10 * time.Second)
		switch i + 1 {
		case 1:
			l.expect(1, "", "", "0.001", "")
		case 9: // 1, 101, 201, 2, 102, 202, 3, 103, 203
			l.expect(9, "", "", "0.202", "")
		case 10: // and 4
			l.expect(10, "0.101", "", "0.202", "")
		case 298: // all but the last, 200
			l.expect(298, "0.149", "0.297", "0.293", "")
		}
	}
	l.expect(299, "0.15", "0.297", "0.293", "0.299")
}

// Where the page has no window, there is none.
func TestNoWindow(t *testing.T) {
	store := NewProbes(time.Now)
	for name, o := range map[string]SeriesOptions{
		"no objectives": {Kind: api.Generation},
		"embeds":        {Kind: api.Embedding, Objectives: series.NewObjectives(config.SLO{Objective: 0.99}), Log: new(series.Log)},
		"unknown kind":  {Objectives: series.NewObjectives(config.SLO{Objective: 0.99}), Log: new(series.Log)},
	} {
		store.Open(result.SeriesID{Endpoint: name}, o)
	}
	for name := range samples(t, store) {
		if strings.Contains(name, "window") {
			t.Errorf("the page has %s", name)
		}
	}
}

// A failure before the first token is slower than any success: it moves the
// statistics, and what falls on it is not known.
func TestWindowFailures(t *testing.T) {
	l := newWindowLab(t)
	for i := range 100 {
		l.probe(time.Duration(i+1) * time.Millisecond)
	}
	l.expect(100, "0.05", "0.099", "0.097", "")
	l.probe(result.Absent)
	l.expect(101, "0.051", "0.1", "0.098", "")
	l.probe(result.Absent) // of 102, the 101st is one
	l.expect(102, "0.051", "", "0.099", "")
	l.probe(result.Absent)
	l.expect(103, "0.052", "", "0.1", "")
	l.probe(2 * time.Hour) // no better than none
	l.expect(104, "0.052", "", "", "")
	for range 120 {
		l.probe(result.Absent)
	}
	l.expect(224, "", "", "", "")
}

// A failure after the first token had one.
func TestWindowKeepsTokensOfFailures(t *testing.T) {
	l := newWindowLab(t)
	r := success()
	r.Outcome = result.Truncated
	l.s.Observe(r)
	judge(l.s, r)
	l.expect(1, "", "", "0.2", "")
}

func TestWindowForgets(t *testing.T) {
	l := newWindowLab(t)
	l.probe(time.Second)
	l.now = epoch.Add(30 * time.Minute)
	l.probe(2 * time.Second)
	l.now = epoch.Add(time.Hour - time.Second)
	l.expect(2, "", "", "2", "")
	l.now = epoch.Add(time.Hour)
	l.expect(1, "", "", "2", "")
	l.now = epoch.Add(90 * time.Minute)
	l.expect(0, "", "", "", "")
	l.probe(3 * time.Second)
	l.expect(1, "", "", "3", "")
}

// A window of many probes keeps the latest ones and does not grow.
func TestWindowIsBounded(t *testing.T) {
	l := newWindowLab(t)
	for i := range 5000 {
		l.probe(time.Duration(i+1) * time.Millisecond)
		l.now = l.now.Add(100 * time.Millisecond)
	}
	// 3.977 to 5 s; the 512th, 1,014th, 1,008th and 1,020th of them.
	l.expect(1024, "4.488", "4.99", "4.984", "4.996")
}

package app

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/schedule"
)

func TestOwnLoad(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var l ownLoad
	want := func(what string, disturbed bool, start time.Duration, concurrency int) {
		t.Helper()
		if got := l.disturbed(&result.Result{Start: noon.Add(start), Concurrency: concurrency}); got != disturbed {
			t.Errorf("%s: disturbed %t, want %t", what, got, disturbed)
		}
	}
	want("no burst ever", false, 0, 0)
	l.begin()
	l.begin()
	want("beside a burst", true, 0, 0)
	want("a burst itself", false, 0, 4)
	l.end(func() time.Time { return noon })
	want("beside the other burst", true, time.Second, 0)
	l.end(func() time.Time { return noon.Add(time.Minute) })
	want("begun before the last one ended", true, 59*time.Second, 0)
	want("begun after it", false, 61*time.Second, 0)
}

// What a series shows of the latest burst is a failure where there was one.
func TestFailuresLast(t *testing.T) {
	r := func(n int, o result.Outcome) *result.Result { return &result.Result{Concurrency: n, Outcome: o} }
	var got []string
	for _, x := range failuresLast([]*result.Result{
		r(1, result.Success), r(2, result.Overloaded), r(2, result.Success), r(4, result.Truncated), r(4, result.Success),
	}) {
		got = append(got, string(x.Outcome))
	}
	if text := strings.Join(got, " "); text != "success success overloaded success truncated" {
		t.Errorf("order %q", text)
	}
}

// Bursts that fail at their largest size each time are one line, and so is a pair
// whose second half fails.
func TestOneLineForARun(t *testing.T) {
	f := func(name string, lines int, runs ...[]*result.Result) {
		t.Helper()
		var log bytes.Buffer
		tk := &task{logger: slog.New(slog.NewTextHandler(&log, nil))}
		for _, run := range runs {
			tk.logRun(run)
		}
		if got := strings.Count(log.String(), "msg="); got != lines {
			t.Errorf("%s: %d lines, want %d:\n%s", name, got, lines, &log)
		}
	}
	r := func(n int, o result.Outcome) *result.Result { return &result.Result{Concurrency: n, Outcome: o} }
	burst := []*result.Result{r(1, result.Success), r(16, result.Success), r(16, result.Overloaded)}
	f("bursts", 1, burst, burst, burst)
	pair := []*result.Result{r(0, result.Success), r(0, result.TimeoutStall)}
	f("pairs", 1, pair, pair, pair)
	f("down and up", 3, []*result.Result{r(0, result.Success)}, pair, []*result.Result{r(0, result.Success), r(0, result.Success)})
}

// An outage spends nothing: what was refused was not computed.
func TestRefusalsCostNothing(t *testing.T) {
	budget := schedule.NewBudget(15000, 0, time.Now)
	s := newSpending(&config.Endpoint{}, &config.Module{InputTokens: config.Tokens(1000), OutputTokens: config.Tokens(100)},
		[]limit{budget})
	used := func(status int) float64 {
		t.Helper()
		most, ok := s.reserve()
		if !ok {
			t.Fatal("no room")
		}
		r := &result.Result{Sent: time.Now(), Status: status, Tokens: result.Tokens{Prompt: -1, Cached: -1, Output: -1}}
		s.settle(most, []*result.Result{r})
		share, _ := budget.Used()
		return share
	}
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusUnauthorized} {
		if got := used(status); got != 0 {
			t.Errorf("after status %d a share of %v is used", status, got)
		}
	}
	// 1.5 x 1000 + 64 tokens of prompt and 100 of the answer, of 15,000.
	if got, want := used(http.StatusOK), 1664.0/15000; got != want {
		t.Errorf("after an answer without counts a share of %v is used, want %v", got, want)
	}
}

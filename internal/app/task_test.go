package app

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/schedule"
)

// What came of a run, in the words of the schedule.
func TestReportOf(t *testing.T) {
	f := func(want schedule.Report, results ...*prober.Result) {
		t.Helper()
		if diff := cmp.Diff(want, reportOf(results)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	result := func(o prober.Outcome, concurrency int) *prober.Result {
		return &prober.Result{Outcome: o, Concurrency: concurrency, RetryAfter: prober.Absent}
	}
	f(schedule.Report{Skipped: true})
	f(schedule.Report{}, result(prober.Success, 0))
	f(schedule.Report{}, result(prober.Canceled, 0))
	f(schedule.Report{Failed: true}, result(prober.ConnectError, 0))
	f(schedule.Report{Failed: true}, result(prober.Success, 0), result(prober.Truncated, 0))
	for _, o := range []prober.Outcome{prober.TimeoutConnect, prober.TimeoutFirstToken, prober.TimeoutStall, prober.TimeoutTotal} {
		f(schedule.Report{Failed: true, TimedOut: true}, result(o, 0))
		f(schedule.Report{TimedOut: true}, result(prober.Success, 4), result(o, 4)) // a burst is no sign of an outage
	}
	asked := result(prober.RateLimited, 0)
	asked.RetryAfter = time.Minute
	f(schedule.Report{Failed: true, RetryAfter: time.Minute}, asked)
}

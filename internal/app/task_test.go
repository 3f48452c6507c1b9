package app

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/schedule"
)

// What came of a run, in the words of the schedule.
func TestReportOf(t *testing.T) {
	f := func(want schedule.Report, results ...*result.Result) {
		t.Helper()
		if diff := cmp.Diff(want, reportOf(results)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	of := func(o result.Outcome, concurrency int) *result.Result {
		return &result.Result{Outcome: o, Concurrency: concurrency, RetryAfter: result.Absent}
	}
	f(schedule.Report{Skipped: true})
	f(schedule.Report{}, of(result.Success, 0))
	f(schedule.Report{}, of(result.Canceled, 0))
	f(schedule.Report{Failed: true}, of(result.ConnectError, 0))
	f(schedule.Report{Failed: true}, of(result.Success, 0), of(result.Truncated, 0))
	for _, o := range []result.Outcome{result.TimeoutConnect, result.TimeoutFirstToken, result.TimeoutStall, result.TimeoutTotal} {
		f(schedule.Report{Failed: true, TimedOut: true}, of(o, 0))
		f(schedule.Report{TimedOut: true}, of(result.Success, 4), of(o, 4)) // a burst is no sign of an outage
	}
	asked := of(result.RateLimited, 0)
	asked.RetryAfter = time.Minute
	f(schedule.Report{Failed: true, RetryAfter: time.Minute}, asked)
}

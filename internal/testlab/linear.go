package testlab

import (
	"testing"
	"time"
)

// Linear measures work on ten inputs and on one of ten times their size in turn, so that both
// take about as long, and reports how many times as long as one of the ten the large one takes,
// as "time-of-10x": what is linear in its input has about 10.
func Linear(b *testing.B, one, ten func()) {
	b.Helper()
	var small, large time.Duration
	for b.Loop() {
		start := time.Now()
		for range 10 {
			one()
		}
		small += time.Since(start)
		start = time.Now()
		ten()
		large += time.Since(start)
	}
	b.ReportMetric(10*float64(large)/float64(small), "time-of-10x")
}

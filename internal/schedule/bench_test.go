//go:build unix

package schedule

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const benchJobs = 10000

// BenchmarkIdleJob reports the memory of a job that waits, its key and its
// closure included, beside that of the plain way: a goroutine with a timer.
func BenchmarkIdleJob(b *testing.B) {
	var ours, plain float64
	idle := func(context.Context, Run) Report { return Report{} } // one in an hour may be due at once
	for b.Loop() {
		s := New(Options{InFlight: 64})
		ours = memory(func() { s.Update(idleJobs(time.Hour, idle)); s.apply(*s.update.Swap(nil), 0) })
		runtime.KeepAlive(s)

		ctx, cancel := context.WithCancel(b.Context())
		var all sync.WaitGroup
		plain = memory(func() { startPlain(ctx, &all, idleJobs(time.Hour, idle)) })
		cancel()
		all.Wait()
	}
	b.ReportMetric(ours, "B/job")
	b.ReportMetric(plain, "plain-B/job")
	b.ReportMetric(ours/plain, "ours/plain")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFiring reports the processor time from a grid point to the end of
// a run that does nothing, at 10,000 jobs with one run a second each, beside
// that of the plain way.
func BenchmarkFiring(b *testing.B) {
	firings := int64(max(b.N, 2*benchJobs))
	ours := firing(firings, func(ctx context.Context, jobs []Job) {
		s := New(Options{InFlight: 64, InFlightPerHost: 4})
		s.Update(jobs)
		if err := s.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	plain := firing(firings, func(ctx context.Context, jobs []Job) {
		var all sync.WaitGroup
		startPlain(ctx, &all, jobs)
		all.Wait()
	})
	b.ReportMetric(ours, "cpu-us/firing")
	b.ReportMetric(plain, "plain-cpu-us/firing")
	b.ReportMetric(ours/plain, "ours/plain")
	b.ReportMetric(0, "ns/op")
}

func idleJobs(interval time.Duration, run func(context.Context, Run) Report) []Job {
	jobs := make([]Job, benchJobs)
	for i := range jobs {
		jobs[i] = Job{Key: fmt.Sprintf("endpoint-%d/interactive", i), Host: fmt.Sprint("host-", i), Interval: interval, Run: run}
	}
	return jobs
}

// startPlain gives each job a goroutine and a timer.
func startPlain(ctx context.Context, all *sync.WaitGroup, jobs []Job) {
	var ready sync.WaitGroup
	ready.Add(len(jobs))
	for _, j := range jobs {
		all.Go(func() {
			next := gridAfter(gridOf("", j.Key), j.Interval, time.Now().UnixNano())
			timer := time.NewTimer(time.Until(time.Unix(0, next)))
			defer timer.Stop()
			ready.Done()
			for {
				select {
				case <-ctx.Done():
					return
				case <-timer.C:
					j.Run(ctx, Run{Scheduled: time.Unix(0, next)})
					next += int64(j.Interval)
					timer.Reset(time.Until(time.Unix(0, next)))
				}
			}
		})
	}
	ready.Wait()
}

// memory returns the bytes of heap and stacks per job that do leaves behind.
func memory(do func()) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	do()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)
	return float64(used) / benchJobs
}

// firing lets loop run jobs until there were n runs and returns the
// processor time per run, in microseconds.
func firing(n int64, loop func(context.Context, []Job)) float64 {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var count, start atomic.Int64
	jobs := idleJobs(time.Second, func(context.Context, Run) Report {
		switch count.Add(1) {
		case 1:
			start.Store(cpuMicroseconds())
		case n:
			cancel()
		}
		return Report{}
	})
	loop(ctx, jobs)
	return float64(cpuMicroseconds()-start.Load()) / float64(count.Load())
}

func cpuMicroseconds() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Microseconds()
}

package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// plan is a random history: jobs with the lengths and reports of their runs,
// and the moments at which some of them are taken out or put back.
type plan struct {
	options Options
	jobs    []plannedJob
	updates []plannedUpdate
}

type plannedJob struct {
	key, host, group string
	interval         time.Duration
	runs             []plannedRun // in slot, for ever
}

type plannedRun struct {
	takes  time.Duration
	deaf   bool // does not heed its cancellation
	report Report
}

type plannedUpdate struct {
	after time.Duration
	out   []bool // by job, round again; jobs with an even number always stay
}

func drawPlan(t *rapid.T) plan {
	tenths := func(most int) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(0, most), func(n int) time.Duration { return time.Duration(n) * 100 * time.Millisecond })
	}
	runs := rapid.Custom(func(t *rapid.T) plannedRun {
		return plannedRun{
			takes: tenths(80).Draw(t, "takes"),
			deaf:  rapid.Bool().Draw(t, "deaf"),
			report: Report{
				Failed:     rapid.Bool().Draw(t, "failed"),
				TimedOut:   rapid.Bool().Draw(t, "timed out"),
				RetryAfter: max(0, tenths(80).Draw(t, "retry after")-5*time.Second),
			},
		}
	})
	p := plan{options: Options{
		InFlight:        rapid.IntRange(0, 4).Draw(t, "in flight"),
		InFlightPerHost: rapid.IntRange(0, 2).Draw(t, "per host"),
	}}
	for i := range rapid.IntRange(1, 8).Draw(t, "jobs") {
		p.jobs = append(p.jobs, plannedJob{
			key:      fmt.Sprint("job-", i),
			host:     rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "host"),
			group:    rapid.SampledFrom([]string{"", "g", "h"}).Draw(t, "group"),
			interval: rapid.SampledFrom([]time.Duration{1, 2, 3, 7, 20}).Draw(t, "interval") * time.Second,
			runs:     rapid.SliceOfN(runs, 1, 4).Draw(t, "runs"),
		})
	}
	p.updates = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) plannedUpdate {
		return plannedUpdate{
			after: tenths(100).Draw(t, "after"),
			out:   rapid.SliceOfN(rapid.Bool(), 1, 8).Draw(t, "out"),
		}
	}), 0, 6).Draw(t, "updates")
	return p
}

// books counts what happens and holds it against the rules.
type books struct {
	mu      sync.Mutex
	options Options
	all     int
	byHost  map[string]int
	byKey   map[string]int
	points  map[string]int // grid points with a run or a skip
	broken  error
}

func (b *books) add(j plannedJob, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all += n
	b.byHost[j.host] += n
	b.byKey[j.key] += n
	if b.byKey[j.key] > 1 ||
		(b.options.InFlight > 0 && b.all > b.options.InFlight) ||
		(b.options.InFlightPerHost > 0 && b.byHost[j.host] > b.options.InFlightPerHost) {
		b.broken = fmt.Errorf("%s: %d of its own, %d of its host, %d in all", j.key, b.byKey[j.key], b.byHost[j.host], b.all)
	}
}

func (b *books) point(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.points[key]++
}

func (b *books) job(p plannedJob) Job {
	i := 0
	return Job{
		Key: p.key, Host: p.host, Group: p.group, Interval: p.interval,
		Run: func(ctx context.Context, r Run) Report {
			b.add(p, 1)
			defer b.add(p, -1)
			if !r.Confirm {
				b.point(p.key)
			}
			run := p.runs[i%len(p.runs)]
			i++
			if run.deaf {
				ctx = context.Background()
			}
			wait(ctx, run.takes)
			return run.report
		},
		Skipped: func(result.SkipReason) { b.point(p.key) },
	}
}

// play runs a plan and returns the first rule that is broken.
func (p plan) play(t *testing.T) error {
	const lasts = 90 * time.Second
	b := &books{options: p.options, byHost: map[string]int{}, byKey: map[string]int{}, points: map[string]int{}}
	l := newLab(t, p.options)
	jobs := make([]Job, len(p.jobs))
	for i, j := range p.jobs {
		jobs[i] = b.job(j)
	}
	l.s.Update(jobs)
	for _, u := range p.updates {
		time.Sleep(u.after)
		var some []Job
		for i, j := range jobs {
			if i%2 == 0 || !u.out[i%len(u.out)] {
				some = append(some, j)
			}
		}
		l.s.Update(some)
	}
	end := l.epoch.Add(lasts + time.Millisecond/2)
	time.Sleep(time.Until(end))
	l.end()
	synctest.Wait() // for the skips
	if b.broken != nil {
		return b.broken
	}
	for i := 0; i < len(p.jobs); i += 2 {
		j := p.jobs[i]
		want := int(end.Sub(l.first(j.key, j.interval))/j.interval) + 1
		if l.first(j.key, j.interval).After(end) {
			want = 0
		}
		if sl := l.s.jobs[j.key].slot; sl != nil && !sl.confirm { // the last grid point still waits
			want--
		}
		if b.points[j.key] != want {
			return fmt.Errorf("%s: %d runs and skips at %d grid points", j.key, b.points[j.key], want)
		}
	}
	if b.all != 0 || l.inFlight() != 0 {
		return errors.New("Run returned before its runs")
	}
	return nil
}

// Whatever happens: one run of a key at once, no more runs than the limits,
// and each grid point has one run or is counted once.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		var broken error
		synctest.Test(t, func(t *testing.T) { broken = p.play(t) })
		if broken != nil {
			rt.Fatal(broken)
		}
	})
}

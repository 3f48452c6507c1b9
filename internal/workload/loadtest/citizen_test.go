package loadtest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
)

const (
	simulatedDay = 24 * time.Hour
	night        = 30 * time.Minute // when load tests may begin: users are few
	// visible is how long a request waits that is seen for certain: 200 ms until a reading, 400 ms and 40 ms of a last one.
	visible = 640 * time.Millisecond
)

// seedsOf returns how many days are simulated.
func seedsOf() uint64 {
	if testing.Short() {
		return 2
	}
	return 100
}

// runAt runs a load test on an engine at a time of the day, again each minute while there is no room.
func runAt(t *testing.T, e *engine, at time.Duration, seed uint64, usual time.Duration, think time.Duration, users []int) (r *Report, from, to time.Duration) {
	e.advance(at)
	e.ttfts = nil
	synctest.Test(t, func(t *testing.T) {
		d := &citizenDriver{engine: e, begin: time.Now().Add(-at), rng: rand.New(rand.NewPCG(seed, 2)), usual: usual, wake: make(chan struct{}, 1)}
		ctx, stop := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serving.Go(func() { d.serve(ctx) })
		for r == nil || r.End == NoRoom {
			time.Sleep(time.Minute)
			from = d.elapsed()
			l := &config.LoadTest{Users: users, Duration: model.Duration(2 * time.Minute), ThinkTime: model.Duration(think), MaxErrorRatio: 0.05}
			r = (&runner{plan: Plan{HasPage: true, Load: l}, driver: d, seed: seed}).run(ctx)
			to = d.elapsed()
		}
		stop()
		serving.Wait()
	})
	return r, from, to
}

// ttfts returns those of users who came from one time until another, in rising order, and the first who had to wait for
// so long that it was visible.
func ttfts(users []*job, from, to time.Duration) (all []time.Duration, waited *job) {
	for _, j := range users {
		if j.arrived < from || j.arrived >= to {
			continue
		}
		if all = append(all, j.ttft()); waited == nil && j.admitted-j.arrived >= visible {
			waited = j
		}
	}
	return all, waited
}

// change returns by which part p99 is higher with a load than without. It sorts both.
func change(without, with []time.Duration) float64 {
	return p99(with).Seconds()/p99(without).Seconds() - 1
}

func p99(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[(len(all)*99+99)/100-1]
}

// Users' requests of a day come at the same times and with the same lengths without and with a load test of ours in the
// night, whose levels exceed what the server carries. p99 of their TTFT is compared in each day, and over all days also in
// the hour from 10 minutes before the run on, and in the run itself until 2 s after it.
func TestCitizen(t *testing.T) {
	var day, hour, run [2][]time.Duration
	ends, levels, waiters := map[End]int{}, map[int]int{}, 0
	for seed := range seedsOf() {
		var engines [2]*engine // without and with a load
		for i := range engines {
			engines[i] = &engine{users: course(simulatedDay, rand.New(rand.NewPCG(seed, 1)))}
		}
		alone, beside := engines[0], engines[1]
		alone.advance(simulatedDay)
		usual, _ := ttfts(alone.users, 0, night)
		r, from, to := runAt(t, beside, night, seed, p99(usual), 0, []int{8, 16, 32, 64})
		beside.advance(simulatedDay)
		ends[r.End]++
		levels[len(r.Levels)]++
		var ofDay [2][]time.Duration
		for i, e := range engines {
			ofDay[i], _ = ttfts(e.users, 0, simulatedDay)
			inHour, _ := ttfts(e.users, from-10*time.Minute, from+50*time.Minute)
			inRun, _ := ttfts(e.users, from, to+2*time.Second)
			day[i], hour[i], run[i] = append(day[i], ofDay[i]...), append(hour[i], inHour...), append(run[i], inRun...)
		}
		if c := change(ofDay[0], ofDay[1]); c > 0.05 {
			t.Errorf("seed %d: p99 of users' TTFT is %.1f %% higher with the load", seed, 100*c)
		}
		if _, waited := ttfts(beside.users, from, to); waited != nil {
			if waiters++; to-waited.arrived > time.Second {
				t.Errorf("seed %d: the load ended %s after a user began to wait", seed, to-waited.arrived)
			}
		}
	}
	for name, of := range map[string][2][]time.Duration{"whole day": day, "hour of the run": hour, "time of the run": run} {
		c := change(of[0], of[1])
		t.Logf("p99 of users' TTFT in the %s: %s without, %s with (%+.2f %%); medians %s and %s; %d requests", name, p99(of[0]), p99(of[1]), 100*c,
			of[0][len(of[0])/2], of[1][len(of[1])/2], len(of[0]))
		if c > 0.05 && !testing.Short() {
			t.Errorf("p99 of users' TTFT in the %s is %.1f %% higher with the load", name, 100*c)
		}
	}
	t.Logf("ends: %v; levels: %v; in %d runs a user waited", ends, levels, waiters)
}

// The first user of all comes while our own requests stand in a queue, and is behind them. How many of the requests at
// the server are not ours is not certain at each reading: some of ours are on their way.
func TestCitizenMeetsFirstUser(t *testing.T) {
	for name, c := range map[string]struct {
		ours  int
		think time.Duration
	}{"without a pause": {64, 0}, "who think": {84, time.Second}} {
		t.Run(name, func(t *testing.T) {
			var worst time.Duration
			for seed := range seedsOf() {
				rng := rand.New(rand.NewPCG(seed, 3))
				var users []*job
				for at := 100 + 60*rng.Float64(); at < 1000; at += 5 * rng.ExpFloat64() {
					users = append(users, &job{arrived: time.Duration(at * float64(time.Second)), admitted: -1, first: -1, prompt: 400, output: 80})
				}
				r, _, to := runAt(t, &engine{users: users}, 0, seed, 2*time.Second, c.think, []int{c.ours})
				delay := to - users[0].arrived
				if r.End != UsersWaiting || delay < 0 || delay > time.Second {
					t.Errorf("seed %d: ended %s %q, %s after a user came", seed, r.End, r.Text, delay)
				}
				worst = max(worst, delay)
				if r, _, _ := runAt(t, &engine{}, 0, seed, 2*time.Second, c.think, []int{c.ours}); r.End != Completed {
					t.Errorf("seed %d: without users it ended %s %q after %s", seed, r.End, r.Text, r.Stop.Sub(r.Start))
				}
			}
			t.Logf("the load ended at most %s after a user came", worst)
		})
	}
}

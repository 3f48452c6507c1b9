package main

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/users"
)

// crowd is how users' requests come and how they are answered.
type crowd struct {
	peak float64 // requests per second at noon; at midnight there are a tenth
	// failed and late are the shares of bad requests, the late ones of all of the day.
	failed, late float64
	// memory is that of what makes requests late, and common its share of the variance: 1 makes all late or none.
	memory time.Duration
	common float64
	// bursts are five minutes of five times as many requests, half of which are late, so often on average.
	bursts time.Duration
	// batch is the share of late requests from midnight to 2:00, when long prompts come.
	batch float64
}

const (
	// burstLength, burstTimes and burstLate are what bursts are.
	burstLength, burstTimes, burstLate = 5 * time.Minute, 5, 0.5
	// batchLength is how long long prompts come.
	batchLength = 2 * time.Hour
	// meanTraffic is the mean of the course of a day, of which that at noon is 1.
	meanTraffic = 0.55
)

// course is the traffic at a time, of which that at noon is 1.
func course(at time.Time) float64 {
	return meanTraffic - (1-meanTraffic)*math.Cos(2*math.Pi*at.Sub(begin()).Hours()/24)
}

// base is the share of requests late outside of bursts and batches, so that all together are exactly late.
func (c *crowd) base() float64 {
	bad, of := c.late, 1.0
	if c.bursts > 0 {
		share := burstTimes * burstLength.Seconds() / c.bursts.Seconds() / (1 + (burstTimes-1)*burstLength.Seconds()/c.bursts.Seconds())
		bad, of = bad-share*burstLate, of-share
	}
	if c.batch > 0 {
		hours := batchLength.Hours()
		share := (meanTraffic*hours - (1-meanTraffic)*12/math.Pi*math.Sin(math.Pi*hours/12)) / 24 / meanTraffic
		bad, of = bad-share*c.batch, of-share
	}
	return bad / of
}

// usersOf draws the readings of the pages of one endpoint.
type usersOf struct {
	random *rand.Rand
	noise  chance
	burst  time.Time // when the next one begins
}

// reading draws what a reading shows.
func (u *usersOf) reading(c *crowd, since, at time.Time) *users.Reading {
	rate, late := c.peak*course(since), c.base()
	if c.bursts > 0 {
		if u.burst.IsZero() || since.Sub(u.burst) > burstLength {
			u.burst = since.Add(time.Duration(u.random.ExpFloat64() * float64(c.bursts)))
		}
		if !since.Before(u.burst) {
			rate, late = rate*burstTimes, burstLate
		}
	}
	if c.batch > 0 && since.Sub(begin())%day < batchLength {
		late = c.batch
	}
	late = u.noise.conditional(late, c.common, c.memory, since)
	n := poisson(u.random, rate*at.Sub(since).Seconds())
	r := &users.Reading{Since: since, At: at, Objectives: objectives()}
	r.Counts[series.Availability] = u.count(n, c.failed)
	r.Counts[series.TTFT] = u.count(n, late)
	return r
}

func (u *usersOf) count(n int, share float64) users.Count {
	var bad uint64
	for range n {
		if share == 1 || share > 0 && u.random.Float64() < share {
			bad++
		}
	}
	return users.Count{Eligible: uint64(n), Bad: bad, Possible: bad}
}

// conditional draws the share of bad requests at a time, which is share on average: a part of the variance of their latency is
// common to all of that time.
func (c *chance) conditional(share, common float64, memory time.Duration, at time.Time) float64 {
	if common == 0 || share <= 0 || share >= 1 {
		return share
	}
	c.isBad(0.5, memory, at)
	level := math.Sqrt2 * math.Erfinv(1-2*share)
	if common == 1 {
		if c.value > level {
			return 1
		}
		return 0
	}
	return math.Erfc((level-math.Sqrt(common)*c.value)/math.Sqrt(1-common)/math.Sqrt2) / 2
}

// poisson draws a number of events.
func poisson(r *rand.Rand, mean float64) int {
	if mean > 50 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
	}
	n := 0
	for p := r.Float64(); p > math.Exp(-mean); p *= r.Float64() {
		n++
	}
	return n
}

// usersState is a steady one, in which every page is a false one.
type usersState struct {
	name string
	crowd
}

// usersStates lists steady states in which exactly as many requests are bad as the objectives allow.
func usersStates() []usersState {
	at := crowd{peak: 0.5, failed: allowed, late: allowed}
	with := func(change func(*crowd)) crowd {
		c := at
		change(&c)
		return c
	}
	noise := func(common float64) crowd {
		return with(func(c *crowd) { c.memory, c.common = 5*time.Minute, common })
	}
	return []usersState{
		{"users: each bad on its own", at},
		{"users: each bad on its own, few requests", with(func(c *crowd) { c.peak = 0.02 })},
		{"users: late with a memory of 5 min, half of it in common", noise(0.5)},
		{"users: all late or none, with a memory of 30 s", with(func(c *crowd) { c.memory, c.common = 30*time.Second, 1 })},
		{"users: all late or none, with a memory of 5 min", noise(1)},
		{"users: bursts that make half of them late for 5 min", with(func(c *crowd) { c.bursts = 5 * day })},
		{"users: long prompts at night, 5 % late", with(func(c *crowd) { c.batch = 0.05 })},
		{"users: bursts, long prompts and noise with a memory of 5 min", with(func(c *crowd) {
			c.memory, c.common, c.bursts, c.batch = 5*time.Minute, 0.5, 5*day, 0.05
		})},
	}
}

// falseUsers simulates users of endpoints in a steady state for a time, and returns all pages.
func falseUsers(s usersState, interval, length time.Duration, endpoints int, seed uint64) (pages []page) {
	for i := range endpoints {
		r := random(seed, s.name, interval, i)
		e, first := newcomer(r, interval)
		u := &usersOf{random: r, noise: chance{random: r}}
		for at := first; at.Before(begin().Add(length)); at = at.Add(interval) {
			e.observeUsers(u.reading(&s.crowd, at.Add(-interval), at))
		}
		pages = append(pages, e.pages...)
	}
	return pages
}

// usersIncident is a change for the worse.
type usersIncident struct {
	name  string
	hour  int // of the day
	peak  float64
	after crowd // failed and late, and the traffic times as much
}

// usersIncidents lists changes of an endpoint whose users meet a tenth of what the objectives allow as bad requests.
func usersIncidents() []usersIncident {
	return []usersIncident{
		{"users: all requests fail", 10, 2, crowd{peak: 1, failed: 1}},
		{"users: all requests fail, a request a minute", 10, 0.02, crowd{peak: 1, failed: 1}},
		{"users: all requests fail at night, and a tenth of them come", 2, 2, crowd{peak: 0.1, failed: 1}},
		{"users: 30 % fail", 10, 2, crowd{peak: 1, failed: 0.3}},
		{"users: 10 % fail", 10, 2, crowd{peak: 1, failed: 0.1}},
		{"users: all are late", 10, 2, crowd{peak: 1, late: 1}},
		{"users: 30 % are late", 10, 2, crowd{peak: 1, late: 0.3}},
		{"users: 30 % are late, four requests a minute", 10, 0.08, crowd{peak: 1, late: 0.3}},
	}
}

// firstUsers is as firstPages, of an incident of users.
func firstUsers(in usersIncident, interval time.Duration, endpoints int, seed uint64) (all []firstPage) {
	for i := range endpoints {
		r := random(seed, in.name, interval, i)
		e, first := newcomer(r, interval)
		onset := begin().Add(time.Duration(in.hour)*time.Hour + time.Duration(r.Int64N(int64(spread))))
		u := &usersOf{random: r, noise: chance{random: r}}
		for at := first; at.Before(onset.Add(patience)); at = at.Add(interval) {
			c := crowd{peak: in.peak, failed: allowed / 10, late: allowed / 10}
			if !at.Add(-interval).Before(onset) {
				c = crowd{peak: in.peak * in.after.peak, failed: max(c.failed, in.after.failed), late: max(c.late, in.after.late)}
			}
			e.observeUsers(u.reading(&c, at.Add(-interval), at))
			if n := len(e.pages); n > 0 && e.pages[n-1].at.After(onset) {
				all = append(all, firstPage{e.pages[n-1].at.Sub(onset), e.pages[n-1].kind})
				break
			}
		}
	}
	return sortPages(all)
}

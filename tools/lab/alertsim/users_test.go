package main

import (
	"math"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/series"
)

// TestFalseUsers counts pages by users of endpoints that meet their objectives, as TestFalsePages does by probes.
func TestFalseUsers(t *testing.T) {
	endpoints := 5
	if testing.Short() {
		endpoints = 1
	}
	for _, s := range usersStates() {
		falseInAllIntervals(t, s.name, endpoints, func(interval time.Duration) []page { return falseUsers(s, interval, 90*day, endpoints, 1) })
	}
}

// TestTimeToPageByUsers is about nine of ten incidents: an outage for users pages within 10 minutes, at night too, and 30 % within 30.
func TestTimeToPageByUsers(t *testing.T) {
	t.Parallel()
	const endpoints = 31
	limits := map[string]time.Duration{
		"users: all requests fail": 10 * time.Minute, "users: all requests fail at night, and a tenth of them come": 10*time.Minute + scrapeInterval,
		"users: all are late": 10*time.Minute + scrapeInterval, "users: 30 % fail": 30 * time.Minute, "users: 30 % are late": 30*time.Minute + scrapeInterval,
	}
	for _, in := range usersIncidents() {
		limit := limits[in.name]
		if limit == 0 {
			continue
		}
		delete(limits, in.name)
		for _, interval := range intervals() {
			first := firstUsers(in, interval, endpoints, 1)
			if most, ok := quantile(first, endpoints, 0.9); !ok || most > limit {
				t.Errorf("%s, %s: %s, want %s for nine of ten", in.name, interval, pageCell(first, endpoints).text, limit)
			}
		}
	}
	if len(limits) > 0 {
		t.Errorf("no incidents %v", limits)
	}
}

// TestShareOfUsers checks that a hundredth of the requests of a day are late in each state. Noise with a memory of 5 min has some 150
// independent values a day, and bursts come every five days.
func TestShareOfUsers(t *testing.T) {
	t.Parallel()
	for _, s := range usersStates() {
		u := &usersOf{random: random(1, s.name)}
		u.noise.random = u.random
		var late, all uint64
		const step = time.Minute
		for at := begin(); at.Before(begin().Add(300 * day)); at = at.Add(step) {
			of := u.reading(&s.crowd, at, at.Add(step)).Counts[series.TTFT]
			late, all = late+of.Bad, all+of.Eligible
		}
		if share := float64(late) / float64(all); math.Abs(share/allowed-1) > 0.1 {
			t.Errorf("%s: %g of the requests are late", s.name, share)
		}
	}
}

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// TestFalsePages counts pages of endpoints that meet their objectives: no more than chance makes,
// in one of 40 rows, of one in 90 days, the first three included.
func TestFalsePages(t *testing.T) {
	endpoints := 20
	if testing.Short() {
		endpoints = 2
	}
	for _, s := range states() {
		falseInAllIntervals(t, s.name, endpoints, func(interval time.Duration) []page { return falsePages(s, interval, 90*day, endpoints, 1) })
	}
}

// falseInAllIntervals counts the false pages of a state.
func falseInAllIntervals(t *testing.T, name string, endpoints int, pages func(interval time.Duration) []page) {
	for _, interval := range intervals() {
		t.Run(fmt.Sprint(name, " ", interval), func(t *testing.T) {
			t.Parallel()
			all := pages(interval)
			t.Log(falseCell(all, 90*day, endpoints).text)
			if n := float64(endpoints); float64(len(all)) > n+2*math.Sqrt(n) {
				t.Errorf("%d pages of %d endpoints in 90 days: %s", len(all), endpoints, falseCell(all, 90*day, endpoints).detail)
			}
		})
	}
}

// TestTimeToPage is about probes every 15 s: the median of the time to the first page, and
// whether all incidents page.
func TestTimeToPage(t *testing.T) {
	const interval, endpoints = 15 * time.Second, 101
	want := map[string]time.Duration{
		"all probes fail":                   3 * time.Minute,
		"nothing comes":                     3 * time.Minute,
		"30 % fail":                         5 * time.Minute,
		"10 % fail":                         10 * time.Minute,
		"flapping, 2 min down and 2 min up": 8 * time.Minute,
		"all first tokens are late":         4 * time.Minute,
		"all tokens are slow":               4 * time.Minute,
		"TTFT doubles, sigma 0.25":          6 * time.Minute,
	}
	for _, in := range incidents() {
		limit := want[in.name]
		if limit == 0 {
			continue
		}
		delete(want, in.name)
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			first := firstPages(in, interval, endpoints, 1)
			t.Log(pageCell(first, endpoints).text)
			if median, ok := quantile(first, endpoints, 0.5); !ok || median > limit {
				t.Errorf("median %s, want at most %s", median, limit)
			}
			if len(first) < endpoints {
				t.Errorf("%d of %d paged", len(first), endpoints)
			}
		})
	}
	if len(want) > 0 {
		t.Errorf("no incidents %v", want)
	}
}

// A server that restarts within 90 s pages nobody.
func TestBlip(t *testing.T) {
	const endpoints = 101
	i := slices.IndexFunc(incidents(), func(in incident) bool { return in.name == "down for 90 s, and else well" })
	for _, interval := range intervals() {
		if first := firstPages(incidents()[i], interval, endpoints, 1); len(first) > 0 {
			t.Errorf("probes every %s: %d of %d page", interval, len(first), endpoints)
		}
	}
}

func TestSameSeedSamePages(t *testing.T) {
	i := slices.IndexFunc(incidents(), func(in incident) bool { return in.name == "10 % fail" })
	run := func(seed uint64) []firstPage { return firstPages(incidents()[i], time.Minute, 5, seed) }
	if a, b := run(5), run(5); len(a) == 0 || !slices.Equal(a, b) || slices.Equal(a, run(6)) {
		t.Errorf("first pages %v and %v with the same seed", a, b)
	}
}

// Five pages of two endpoints in 45 days, of which one in the first three.
func TestCells(t *testing.T) {
	pages := []page{{at: begin().Add(day), kind: "down"}}
	for range 4 {
		pages = append(pages, page{at: begin().Add(4 * day), kind: "ttft"})
	}
	if got, want := falseCell(pages, 45*day, 2), (cell{"5.00 (0.50)", "ttft 4, down 1"}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	first := []firstPage{{time.Minute, "down"}, {90 * time.Second, "down"}, {12 * time.Minute, "ttft"}}
	for endpoints, want := range map[int]cell{
		3: {"1.5 (1.5)", "down 2, ttft 1"}, 4: {"1.5 (12)", "down 2, ttft 1"}, 5: {"12 (60 % page)", "down 2, ttft 1"}, 10: {"30 % page", "down 2, ttft 1"},
	} {
		if got := pageCell(first, endpoints); got != want {
			t.Errorf("of %d: %v, want %v", endpoints, got, want)
		}
	}
}

// The shares are those of a table of the normal distribution: twice as slow with a deviation
// of 0.5 lowers the threshold from 2.326 to 0.940 deviations.
func TestShareAbove(t *testing.T) {
	for _, c := range []struct{ factor, sigma, want float64 }{{1, 0.5, 0.01}, {2, 0.25, 0.672}, {2, 0.5, 0.174}, {2, 1, 0.0512}} {
		if got := shareAbove(c.factor, c.sigma); math.Abs(got/c.want-1) > 0.01 {
			t.Errorf("shareAbove(%g, %g) = %g, want %g", c.factor, c.sigma, got, c.want)
		}
	}
}

// TestChance checks the share of bad probes and how many follow each other. For a share of a
// half the chance that two are bad is known exactly: 1/4 + asin(r)/2pi, with r their
// correlation (Sheppard 1899).
func TestChance(t *testing.T) {
	const n, step = 1_000_000, 15 * time.Second
	for _, c := range []struct {
		share  float64
		memory time.Duration
	}{{0.01, 0}, {0.5, 30 * time.Second}, {0.5, 5 * time.Minute}, {0.01, time.Minute}} {
		of := chance{random: rand.New(rand.NewPCG(1, 2))}
		bad, both, before := 0.0, 0.0, false
		for i := range time.Duration(n) {
			is := of.isBad(c.share, c.memory, begin().Add(i*step))
			if is {
				bad++
			}
			if is && before {
				both++
			}
			before = is
		}
		kept := 0.0
		if c.memory > 0 {
			kept = math.Exp(-step.Seconds() / c.memory.Seconds())
		}
		// Five standard deviations of a mean of draws with this correlation.
		spread := 5 * math.Sqrt(c.share*(1-c.share)/n*(1+kept)/(1-kept))
		if got := bad / n; math.Abs(got-c.share) > spread {
			t.Errorf("share %g, memory %s: %g are bad, want within %g", c.share, c.memory, got, spread)
		}
		if want := 0.25 + math.Asin(kept)/(2*math.Pi); c.share == 0.5 && math.Abs(both/n-want) > spread {
			t.Errorf("memory %s: %g follow a bad one, want %g", c.memory, both/n, want)
		}
	}
}

// Each probe is its start and end in seconds, with a c where it is a confirmation, ! where it
// failed and x where it was canceled.
func TestSchedule(t *testing.T) {
	always := func(b behavior) func(time.Time) behavior { return func(time.Time) behavior { return b } }
	failing, hung := behavior{failed: 1}, behavior{hangs: true}
	for name, c := range map[string]struct {
		interval time.Duration
		to       time.Duration
		behavior func(time.Time) behavior
		want     string
	}{
		"well":                               {15 * time.Second, 40 * time.Second, always(behavior{}), "3-5 18-20 33-35"},
		"a first failure is confirmed twice": {30 * time.Second, 70 * time.Second, always(failing), "3-3.1! 8.1-8.2c! 13.2-13.3c! 33-33.1! 63-63.1!"},
		"confirmed after a third of a short interval": {6 * time.Second, 10 * time.Second, always(failing), "3-3.1! 5.1-5.2c! 7.2-7.3c! 9-9.1!"},
		"a blip is confirmed away": {15 * time.Second, 20 * time.Second, func(at time.Time) behavior {
			if at.Before(begin().Add(5 * time.Second)) {
				return failing
			}
			return behavior{}
		}, "3-3.1! 8.1-10.1c 18-20"},
		"probes that hang leave others out": {15 * time.Second, 70 * time.Second, always(hung), "3-33! 48-78!"},
		"a pause after the second timeout":  {15 * time.Second, 200 * time.Second, always(hung), "3-33! 48-78! 123-153! 198-228!"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			s := newSource(rand.New(rand.NewPCG(1, 2)), c.behavior)
			s.schedule(c.interval, begin().Add(3*time.Second), begin().Add(c.to), func(p *probe) bool {
				got = append(got, show(p))
				return true
			})
			if have := strings.Join(got, " "); have != c.want {
				t.Errorf("probes %s, want %s", have, c.want)
			}
		})
	}
}

func show(p *probe) string {
	at := func(t time.Time) string { return fmt.Sprintf("%.3g", math.Floor(10*t.Sub(begin()).Seconds())/10) }
	s := at(p.start) + "-" + at(p.end)
	if p.confirm {
		s += "c"
	}
	switch {
	case p.outcome == result.Canceled:
		s += "x"
	case p.failed():
		s += "!"
	}
	return s
}

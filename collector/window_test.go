package collector

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// windowLab is the window of a series on a clock that the test sets.
type windowLab struct {
	t     *testing.T
	now   time.Time
	store *Probes
	s     *Series
}

func newWindowLab(t *testing.T) *windowLab {
	t.Helper()
	l := &windowLab{t: t, now: epoch}
	l.store = NewProbes(func() time.Time { return l.now })
	l.s = l.store.Open(result.SeriesID{Endpoint: "e", Module: "i", Prefix: "cold"}, SeriesOptions{SLO: &config.SLO{Objective: 0.99}})
	return l
}

// probe adds a probe now; a negative TTFT is a failure.
func (l *windowLab) probe(ttft time.Duration) {
	r := success()
	r.Start, r.Timing.TTFT = l.now, ttft
	if ttft < 0 {
		r.Outcome = result.TimeoutFirstToken
	}
	l.s.Observe(r)
	l.s.Judge(r)
}

// expect compares the page: samples, p50, p99, p99_lower and p99_upper.
func (l *windowLab) expect(samples int, want ...string) {
	l.t.Helper()
	all := map[string]string{"probe_ttft_window_samples": fmt.Sprint(samples)}
	for i, stat := range []string{"p50", "p99", "p99_lower", "p99_upper"} {
		all[fmt.Sprintf("probe_ttft_window_seconds stat=%q", stat)] = want[i]
	}
	has(l.t, l.store, all)
	w := l.s.TTFTWindow()
	if w == nil {
		l.t.Fatal("no window")
	}
	got := []string{fmt.Sprint(w.Samples)}
	for _, stat := range []*float64{w.P50, w.P99, w.P99Lower, w.P99Upper} {
		text := ""
		if stat != nil {
			text = fmt.Sprint(*stat)
		}
		got = append(got, text)
	}
	if want := append([]string{fmt.Sprint(samples)}, want...); !slices.Equal(got, want) {
		l.t.Errorf("TTFTWindow = %q, want %q", got, want)
	}
}

func TestWindow(t *testing.T) {
	l := newWindowLab(t)
	l.s.setServed(api.Generation, "m")
	l.expect(0, "", "", "", "")
	for i := range 299 { // 1 to 299 ms, every 10 s, in no order
		l.probe(time.Duration(i*100%299+1) * time.Millisecond)
		l.now = l.now.Add(10 * time.Second)
		switch i + 1 {
		case 1:
			l.expect(1, "", "", "0.001", "")
		case 9: // 1, 101, 201, 2, 102, 202, 3, 103, 203
			l.expect(9, "", "", "0.202", "")
		case 10: // and 4
			l.expect(10, "0.101", "", "0.202", "")
		case 298: // all but the last, 200
			l.expect(298, "0.149", "0.297", "0.293", "")
		}
	}
	l.expect(299, "0.15", "0.297", "0.293", "0.299")
}

// Where the page has no window, there is none.
func TestNoWindow(t *testing.T) {
	store := NewProbes(time.Now)
	for name, o := range map[string]SeriesOptions{
		"no objectives": {Kind: api.Generation},
		"embeds":        {Kind: api.Embedding, SLO: &config.SLO{Objective: 0.99}},
		"unknown kind":  {SLO: &config.SLO{Objective: 0.99}},
	} {
		s := store.Open(result.SeriesID{Endpoint: name}, o)
		if w := s.TTFTWindow(); w != nil {
			t.Errorf("%s: %+v", name, *w)
		}
	}
	for name := range samples(t, store) {
		if strings.Contains(name, "window") {
			t.Errorf("the page has %s", name)
		}
	}
}

// A failure before the first token is slower than any success: it moves the
// statistics, and what falls on it is not known.
func TestWindowFailures(t *testing.T) {
	l := newWindowLab(t)
	for i := range 100 {
		l.probe(time.Duration(i+1) * time.Millisecond)
	}
	l.expect(100, "0.05", "0.099", "0.097", "")
	l.probe(result.Absent)
	l.expect(101, "0.051", "0.1", "0.098", "")
	l.probe(result.Absent) // of 102, the 101st is one
	l.expect(102, "0.051", "", "0.099", "")
	l.probe(result.Absent)
	l.expect(103, "0.052", "", "0.1", "")
	l.probe(2 * time.Hour) // no better than none
	l.expect(104, "0.052", "", "", "")
	for range 120 {
		l.probe(result.Absent)
	}
	l.expect(224, "", "", "", "")
}

// A failure after the first token had one.
func TestWindowKeepsTokensOfFailures(t *testing.T) {
	l := newWindowLab(t)
	r := success()
	r.Outcome = result.Truncated
	l.s.Observe(r)
	l.s.Judge(r)
	l.expect(1, "", "", "0.2", "")
}

func TestWindowForgets(t *testing.T) {
	l := newWindowLab(t)
	l.probe(time.Second)
	l.now = epoch.Add(30 * time.Minute)
	l.probe(2 * time.Second)
	l.now = epoch.Add(time.Hour - time.Second)
	l.expect(2, "", "", "2", "")
	l.now = epoch.Add(time.Hour)
	l.expect(1, "", "", "2", "")
	l.now = epoch.Add(90 * time.Minute)
	l.expect(0, "", "", "", "")
	l.probe(3 * time.Second)
	l.expect(1, "", "", "3", "")
}

// A window of many probes keeps the latest ones and does not grow.
func TestWindowIsBounded(t *testing.T) {
	l := newWindowLab(t)
	for i := range 5000 {
		l.probe(time.Duration(i+1) * time.Millisecond)
		l.now = l.now.Add(100 * time.Millisecond)
	}
	// 3.977 to 5 s; the 512th, 1,014th, 1,008th and 1,020th of them.
	l.expect(1024, "4.488", "4.99", "4.984", "4.996")
	w := &l.s.values.slo.ttfts
	if n := cap(w.samples); n > 2*1024 {
		t.Errorf("the window has room for %d samples", n)
	}
}

// FuzzWindow holds the window against a list of all its samples.
func FuzzWindow(f *testing.F) {
	f.Add([]byte{10, 20, 30, 255, 0, 20})
	f.Add(slices.Repeat([]byte{7, 200, 7, 3}, 600))
	f.Add(slices.Repeat([]byte{0, 1}, 1100))
	f.Add(slices.Repeat([]byte{255, 255, 90, 0}, 40))
	f.Fuzz(func(t *testing.T, steps []byte) {
		steps = steps[:min(len(steps), 6000)] // fills the window twice over
		type sample struct {
			at   time.Time
			ttft float64
		}
		var all []sample
		now := epoch
		w := window{began: now}
		for ; len(steps) >= 2; steps = steps[2:] {
			now = now.Add(time.Duration(steps[0]) * 4 * time.Second)
			ttft := time.Duration(steps[1]) * 10 * time.Millisecond
			s := sample{now, float64(ttft.Microseconds()) / 1e6}
			if steps[1] == 255 {
				ttft, s.ttft = result.Absent, math.Inf(1)
			}
			w.observe(now, ttft)
			all = append(all, s)
			all = slices.DeleteFunc(all, func(s sample) bool { return now.Sub(s.at) >= time.Hour })
			all = all[max(0, len(all)-1024):]
		}
		w.expire(now)
		if len(w.samples) != len(all) {
			t.Fatalf("%d samples, want %d", len(w.samples), len(all))
		}
		var sorted []float64
		for _, s := range all {
			sorted = append(sorted, s.ttft)
		}
		slices.Sort(sorted)
		got := w.stats()
		for i, k := range windowRanks(len(all)) {
			want := gauge{}
			if k > 0 && !math.IsInf(sorted[k-1], 0) {
				want = gauge{sorted[k-1], true}
			}
			if got[i] != want {
				t.Errorf("%s of %d samples = %v, want %v", windowStats()[i], len(all), got[i], want)
			}
		}
	})
}

func TestWindowRanks(t *testing.T) {
	f := func(n int, want [numWindowStats]int) {
		t.Helper()
		if got := windowRanks(n); got != want {
			t.Errorf("ranks of %v of %d are %v, want %v", windowStats(), n, got, want)
		}
	}
	f(0, [4]int{})
	f(1, [4]int{0, 0, 1, 0})
	f(9, [4]int{0, 0, 8, 0})
	f(10, [4]int{5, 0, 9, 0})
	f(11, [4]int{6, 0, 10, 0})
	f(99, [4]int{50, 0, 96, 0})
	f(100, [4]int{50, 99, 97, 0})
	f(298, [4]int{149, 296, 292, 0})
	f(299, [4]int{150, 297, 293, 299})
	f(720, [4]int{360, 713, 708, 718})
	f(1024, [4]int{512, 1014, 1008, 1020})

	for n := 299; n <= maxWindowSamples; n++ {
		r := windowRanks(n)
		low, mid, high := r[statP99Lower], r[statP99], r[statP99Upper]
		if low > mid || mid > high || high > n || r[statP50] >= low {
			t.Errorf("ranks of %d: %d, %d and %d are not in order", n, low, mid, high)
		}
	}
}

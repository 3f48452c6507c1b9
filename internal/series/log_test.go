package series

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const ms = time.Millisecond

func epoch() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// probe is a probe of an endpoint that generates tokens, with three of them.
func probe(start time.Time, o result.Outcome, ttft, tpot time.Duration) *result.Result {
	r := &result.Result{Start: start, Outcome: o, Kind: api.Generation}
	r.Timing.TTFT, r.Timing.TPOT, r.Timing.Duration = ttft, tpot, time.Second
	r.Tokens.Output = 3
	return r
}

// naive is what a log is held against: all probes and waits, as they were.
type naive struct {
	points []Point
	ttfts  []waitSample
}

type waitSample struct {
	at   time.Time
	ttft time.Duration
}

func (n *naive) window(now time.Time) Window {
	var all []time.Duration
	for _, s := range n.ttfts[max(0, len(n.ttfts)-maxWindow):] {
		if now.Sub(s.at) < time.Hour {
			all = append(all, s.ttft)
		}
	}
	slices.Sort(all)
	w := Window{Samples: len(all)}
	for i, k := range WindowRanks(len(all)) {
		w.Seconds[i] = math.NaN()
		if k > 0 && all[k-1] < math.MaxInt64 {
			w.Seconds[i] = all[k-1].Seconds()
		}
	}
	return w
}

// A log shows what a list of everything does: the latest 480 probes, and the window of the
// last hour with its waits.
func TestLogEqualsAList(t *testing.T) {
	objectives := &Objectives{Share: 0.99, TTFT: 300 * ms, TPOT: 20 * ms}
	rapid.Check(t, func(t *rapid.T) {
		var l Log
		var n naive
		now := epoch()
		// Long runs of one pace, so that logs fill up.
		for range rapid.IntRange(1, 4).Draw(t, "runs") {
			pause := time.Duration(rapid.SampledFrom([]int{1, 20, 70, 300, 6000, 864_000}).Draw(t, "pause")) * 100 * ms
			waits := rapid.Bool().Draw(t, "waits")
			for i := range rapid.IntRange(1, 700).Draw(t, "probes") {
				now = now.Add(pause)
				ttft := time.Duration(i*7919%500+1) * ms
				r := probe(now, result.Success, ttft, time.Duration(i*31%40)*ms)
				switch {
				case i%11 == 3:
					r.Outcome, r.Timing.TTFT, r.Timing.TPOT = result.TimeoutFirstToken, result.Absent, result.Absent
				case i%11 == 4:
					r.Outcome = result.Truncated
				case i%11 == 5:
					r.Imprecise = true
				}
				o := Observe(r, objectives, i%13 == 7, i%17 == 9)
				l.Add(&o)
				n.add(&o, objectives)
				if waits && i%5 == 0 {
					l.AddWait(now, ttft, false)
					n.ttfts = append(n.ttfts, waitSample{now, ttft})
				}
			}
			want := n.points[max(0, len(n.points)-MaxPoints):]
			if kept := l.Points(MaxPoints); !waits && !slices.EqualFunc(kept, want, samePoint) {
				t.Fatalf("%d points, want %d", len(kept), len(want))
			}
			if got := l.Points(30); !waits && !slices.EqualFunc(got, want[max(0, len(want)-30):], samePoint) {
				t.Fatalf("the latest 30 points are %v", got)
			}
			for _, at := range []time.Time{now, now, now.Add(50 * time.Minute), now.Add(50*time.Minute + 100*ms), now} {
				if got, all := l.Window(at), n.window(at); fmt.Sprint(got) != fmt.Sprint(all) && l.n < maxWindow {
					t.Fatalf("window %v at %s, want %v", got, at, all)
				}
			}
		}
		if most := maxWindow + 2*len(chunk{}.bytes); l.n > most {
			t.Fatalf("%d records, want at most %d", l.n, most)
		}
	})
}

func (n *naive) add(o *Observation, objectives *Objectives) {
	p := Point{At: o.Start, Outcome: o.Outcome, TTFT: result.Absent, TPOT: result.Absent}
	if o.Outcome == result.Success && o.Timed() {
		p.TTFT, p.TPOT = o.Timing.TTFT, o.Timing.TPOT
		p.Late = p.TTFT > objectives.TTFT || p.TPOT > objectives.TPOT
	}
	n.points = append(n.points, p)
	if o.Disturbed || o.Confirmation {
		return
	}
	switch {
	case o.Timing.TTFT < 0:
		n.ttfts = append(n.ttfts, waitSample{o.Start, math.MaxInt64})
	case !o.Imprecise:
		n.ttfts = append(n.ttfts, waitSample{o.Start, o.Timing.TTFT})
	}
}

func samePoint(a, b Point) bool {
	return a.At.Equal(b.At) && a.Outcome == b.Outcome && a.TTFT == b.TTFT && a.TPOT == b.TPOT && a.Late == b.Late
}

// A duration is exact to a microsecond below 4.19 s, and to a millionth above.
func TestMicros(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "duration"))
		off, most := (microsOf(d).duration() - d).Abs(), 500*time.Nanosecond
		if d > 4194*ms {
			most = max(d/800_000, most)
		}
		if off > most {
			t.Fatalf("%s is kept as %s", d, microsOf(d).duration())
		}
	})
	for d, want := range map[time.Duration]time.Duration{
		0: 0, 1499: 1000, 1500: 2000, time.Hour: time.Hour, 59*time.Minute + 59999*ms: 59*time.Minute + 59999*ms,
		time.Hour + 1: result.Absent, result.Absent: result.Absent, 4194303500: 4194300 * time.Microsecond, 4194303499: 4194303 * time.Microsecond,
	} {
		if got := microsOf(d).duration(); got != want {
			t.Errorf("%s is kept as %s, want %s", d, got, want)
		}
	}
}

// What is saved and restored is the same, but for what has not happened yet and for the
// window, which begins again.
func TestLogIsSaved(t *testing.T) {
	var l Log
	objectives := &Objectives{Share: 0.9, TTFT: 300 * ms}
	now := epoch()
	for i := range 700 {
		now = now.Add(30 * time.Second)
		r := probe(now, result.Success, time.Duration(i+1)*ms, 20*ms)
		if i%100 == 50 {
			r.Outcome = result.TimeoutStall
		}
		o := Observe(r, objectives, false, false)
		l.Add(&o)
	}
	var s Saved
	l.Save(&s)
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	restore := func(now time.Time) *Log {
		var read Saved
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		got, err := read.Restore(now)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got, want := restore(now), l.Points(MaxPoints)
	if points := got.Points(MaxPoints); !slices.EqualFunc(points, want, samePoint) || !points[479].Late {
		t.Errorf("%d points, want %d", len(points), len(want))
	}
	if a, b := UptimeOf(now, got), UptimeOf(now, &l); !reflect.DeepEqual(a, b) {
		t.Errorf("uptime %v, want %v", a, b)
	}
	if w := got.Window(now); w.Samples != 0 {
		t.Errorf("%d samples in the window", w.Samples)
	}
	if early := restore(now.Add(-time.Hour)); len(early.Points(MaxPoints)) != 480-120 {
		t.Errorf("%d points an hour earlier", len(early.Points(MaxPoints)))
	}
	for _, bad := range []string{`{"at":[1]}`, `{"at":[1],"ttft":[1],"tpot":[1]}`, `{"outcomes":[{"outcome":"success","n":1}]}`} {
		var read Saved
		if err := json.Unmarshal([]byte(bad), &read); err != nil {
			t.Fatal(err)
		}
		if _, err := read.Restore(now); err == nil {
			t.Errorf("%s is restored", bad)
		}
	}
}

func TestWindowRanks(t *testing.T) {
	f := func(n int, want [NumWindowStats]int) {
		t.Helper()
		if got := WindowRanks(n); got != want {
			t.Errorf("ranks of %v of %d are %v, want %v", WindowStats(), n, got, want)
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

	for n := 299; n <= maxWindow; n++ {
		r := WindowRanks(n)
		low, mid, high := r[P99Lower], r[P99], r[P99Upper]
		if low > mid || mid > high || high > n || r[P50] >= low {
			t.Errorf("ranks of %d: %d, %d and %d are not in order", n, low, mid, high)
		}
	}
}

func TestUsual(t *testing.T) {
	var l Log
	add := func(at time.Time, o result.Outcome, ttft time.Duration) {
		all := Observe(probe(at, o, ttft, 20*ms), nil, false, false)
		l.Add(&all)
	}
	add(epoch().Add(-25*time.Hour), result.Success, time.Hour) // too long ago
	for i := range 9 {
		add(epoch().Add(time.Duration(i-9)*time.Minute), result.Success, time.Duration(i+1)*100*ms)
	}
	add(epoch().Add(-30*time.Second), result.Empty, ms)
	add(epoch(), result.Success, 7*time.Second) // not before
	if ttft, tpot := l.Usual(epoch()); ttft != nil || tpot != nil {
		t.Errorf("usual with 9 probes: %v, %v", *ttft, *tpot)
	}
	if ttft, tpot := l.Usual(epoch().Add(time.Minute)); ttft == nil || *ttft != 0.55 || *tpot != 0.02 {
		t.Errorf("usual: %v, %v", ttft, tpot)
	}
}

// A chunk is a size class of the allocator.
func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(chunk{}); n != 256 {
		t.Errorf("a chunk has %d bytes", n)
	}
}

// BenchmarkMemory is what the logs of 1,000 series hold that were probed every 30 s for 30
// days, with objectives for TTFT and TPOT.
func BenchmarkMemory(b *testing.B) {
	const n = 1000
	objectives := &Objectives{Share: 0.99, TTFT: 500 * ms, TPOT: 50 * ms}
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		before := heap()
		logs, pool := make([]Log, n), new(Pool)
		pool.Add(n)
		for i := range logs {
			logs[i].UsePool(pool)
		}
		add := func(at time.Time) {
			r := answer(at, 64)
			for i := range logs {
				o := Observe(r, objectives, false, false)
				logs[i].Add(&o)
			}
		}
		now := epoch()
		for range 30 * 24 {
			now = now.Add(time.Hour)
			add(now)
		}
		for range 600 {
			now = now.Add(30 * time.Second)
			add(now)
		}
		b.ReportMetric((heap()-before)/n, "B/series")
		runtime.KeepAlive(logs)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAdd is what a probe costs, and BenchmarkWindow a scrape of a series.
func BenchmarkAdd(b *testing.B) {
	var l Log
	r := probe(epoch(), result.Success, 200*ms, 20*ms)
	for b.Loop() {
		r.Start = r.Start.Add(30 * time.Second)
		o := Observe(r, &Objectives{Share: 0.99, TTFT: 500 * ms}, false, false)
		l.Add(&o)
	}
}

func BenchmarkWindow(b *testing.B) {
	var l Log
	now := epoch()
	for i := range 600 {
		now = now.Add(30 * time.Second)
		o := Observe(probe(now, result.Success, time.Duration(i*7919%500)*ms, 20*ms), nil, false, false)
		l.Add(&o)
	}
	for b.Loop() {
		l.windowUntil = 0 // as if the oldest sample had left it
		if w := l.Window(now); w.Samples != 120 {
			b.Fatal(w.Samples)
		}
	}
}

package series

import (
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// MaxPoints is how many probes a log shows: four hours of one every 30 s.
const MaxPoints = 480

const (
	// maxWindow is how many of the last hour it keeps for the window: one every 3.6 s.
	maxWindow = 1024
	// windowSpan is how far back a window looks, and usualSpan what is usual, which takes
	// minUsual probes.
	windowSpan, usualSpan, minUsual = time.Hour, 24 * time.Hour, 10
)

// Log is the latest probes of one series. The zero value is ready. It is safe for
// concurrent use.
type Log struct {
	mu     sync.Mutex
	chunks []*chunk // the oldest first
	n      int      // records
	waits  int      // records of users who waited
	added  uint64   // records since the window began
	uptime uptime

	pool      *Pool // nil is none
	kept      []Kept
	keptBytes int32 // of kept, in memory
}

// UsePool has the log share a pool with others. It comes before the first Add.
func (l *Log) UsePool(p *Pool) { l.pool = p }

// chunk is as many records as fill a size class of the allocator.
type chunk struct {
	from    int64 // from when they count their time, in tenths of a second since 1970
	n       uint8
	records [37]record
}

// record is a probe in 10 bytes, without what no reader of the log shows.
type record struct {
	at         [3]byte // tenths of a second, also before chunk.from
	ttft, tpot micros
	what       what
}

// what is the index of an outcome in result.Outcomes, and what the probe counts for.
type what uint8

const (
	// The least of them is no sample; a late probe is timed, and a timed one a sample.
	sample what = (iota + 1) << 5 // one for what is said of all probes
	timed                         // a success whose latencies count
	late                          // a success that exceeded an objective for its latencies

	inWindow    what = 1 << 7 // its time to first token counts in the window
	outcomeBits what = 1<<5 - 1
	success     what = 0           // the index of it
	waited           = outcomeBits // instead of an outcome: no probe, but a user who waited while one did
)

func (w what) outcome() what          { return w & outcomeBits }
func (w what) atLeast(what what) bool { return w&late >= what }

// put puts a record at the end; false where there is no room for one of that time.
func (c *chunk) put(at int64, r record) bool {
	since := at - c.from
	if int(c.n) == len(c.records) || since != int64(int32(since)<<8>>8) {
		return false
	}
	r.at = [3]byte{byte(since), byte(since >> 8), byte(since >> 16)}
	c.records[c.n] = r
	c.n++
	return true
}

// at returns when a record was, in tenths of a second since 1970.
func (c *chunk) at(r *record) int64 {
	return c.from + int64(int32(r.at[0])<<8|int32(r.at[1])<<16|int32(r.at[2])<<24)>>8
}

// micros is a duration: 22 bits in units of 1, 10, 100 or 1,000 µs, so that it is exact to a
// microsecond below 4.19 s, and to a millionth up to an hour.
type micros [3]byte

const (
	microsBits = 22
	absentBits = 1<<24 - 1
)

// absent is a duration that was not measured.
var absent = micros{0xff, 0xff, 0xff}

// microsOf returns d, absent where it is or is longer than an hour, which no first token
// takes.
func microsOf(d time.Duration) micros {
	if d < 0 || d > time.Hour {
		return absent
	}
	unit, exponent := time.Microsecond, uint32(0)
	for d.Round(unit)/unit >= 1<<microsBits {
		unit *= 10
		exponent++
	}
	v := exponent<<microsBits | uint32(d.Round(unit)/unit)
	return micros{byte(v), byte(v >> 8), byte(v >> 16)}
}

// duration returns what microsOf made m of, result.Absent where it is absent.
func (m micros) duration() time.Duration {
	v := uint32(m[0]) | uint32(m[1])<<8 | uint32(m[2])<<16
	if v == absentBits {
		return result.Absent
	}
	d := time.Duration(v&(1<<microsBits-1)) * time.Microsecond
	for range v >> microsBits {
		d *= 10
	}
	return d
}

// log returns the logarithm of a duration in seconds, which is above 0.
func (m micros) log() float64 {
	v := uint32(m[0]) | uint32(m[1])<<8 | uint32(m[2])<<16
	return math.Log(float64(v&(1<<microsBits-1))) + (float64(v>>microsBits)-6)*math.Ln10
}

// tenthsOfWindow is windowSpan in tenths of a second.
const tenthsOfWindow = int64(windowSpan / (time.Second / 10))

// tenths returns t as a Unix time in tenths of a second.
func tenths(t time.Time) int64 { return t.UnixMilli() / 100 }

// Add adds a probe that was not canceled, which must not be changed afterwards.
func (l *Log) Add(o *Observation) {
	i := slices.Index(result.Outcomes(), o.Outcome)
	if i < 0 || o.Outcome == result.Canceled {
		return
	}
	r := record{ttft: microsOf(o.Timing.TTFT), tpot: microsOf(o.Timing.TPOT), what: what(i)}
	switch {
	case o.Judgement.IsLate():
		r.what |= late
	case o.Outcome == result.Success && o.Timed():
		r.what |= timed
	case o.IsSample():
		r.what |= sample
	}
	if o.IsSample() && hasTokens(o.Result) && countsTTFT(o.Result) {
		r.what |= inWindow
	}
	allowance := l.pool.allowance()
	k, alike := keep(o, allowance)
	l.mu.Lock()
	defer l.mu.Unlock()
	before, ok := l.newest()
	k.setAlike(&alike, before, ok)
	l.keep(k, allowance)
	l.add(o.Start, r)
	if o.IsSample() {
		l.uptime.add(o)
	}
}

// AddWait adds a user who came at an instant, while a probe waited for its first token, and
// waited so long for one; negative is a token that did not come. Bad is a wait over the
// objective.
func (l *Log) AddWait(at time.Time, wait time.Duration, bad bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(at, record{ttft: microsOf(wait), tpot: absent, what: inWindow | waited})
	l.uptime.addWait(at, bad)
}

// add puts a record at the end. Where the clock was off by years, what came before has no
// time.
func (l *Log) add(at time.Time, r record) {
	now := tenths(at)
	if n := len(l.chunks); n > 0 && now-l.chunks[n-1].from != int64(int32(now-l.chunks[n-1].from)) {
		l.chunks, l.n, l.waits = nil, 0, 0
	}
	if n := len(l.chunks); n == 0 || !l.chunks[n-1].put(now, r) {
		c := l.room(now)
		*c = chunk{from: now}
		c.put(now, r)
		l.chunks = append(l.chunks, c)
	}
	l.n++
	l.added++
	if r.what.outcome() == waited {
		l.waits++
	}
}

// room returns a chunk for the next records: an old one, where all in it is neither shown nor
// of the last hour.
func (l *Log) room(now int64) (c *chunk) {
	for len(l.chunks) > 0 {
		oldest, waits := l.chunks[0], 0
		for i := range oldest.n {
			if oldest.records[i].what.outcome() == waited {
				waits++
			}
		}
		left := l.n - int(oldest.n)
		shown := left-(l.waits-waits) < MaxPoints
		old := oldest.at(&oldest.records[oldest.n-1])+tenthsOfWindow <= now
		if left < maxWindow && (shown || !old) {
			break
		}
		l.n, l.waits = left, l.waits-waits
		l.chunks = slices.Delete(l.chunks, 0, 1)
		c = oldest
	}
	if c == nil {
		c = new(chunk)
	}
	return c
}

// latest returns the records, the latest first, each with its time in tenths of a second since
// 1970.
func (l *Log) latest() iter.Seq2[int64, *record] {
	return func(yield func(int64, *record) bool) {
		for _, c := range slices.Backward(l.chunks) {
			for i := int(c.n) - 1; i >= 0; i-- {
				if r := &c.records[i]; !yield(c.at(r), r) {
					return
				}
			}
		}
	}
}

// Point is a probe as charts show it.
type Point struct {
	// At is when the probe started, to a tenth of a second.
	At      time.Time
	Outcome result.Outcome
	// TTFT and TPOT are those of a success whose latencies count; negative is absent.
	TTFT, TPOT time.Duration
	// Late is a success that exceeded an objective, Aside a probe that is no sample.
	Late, Aside bool
}

// point returns the probe of a record, given the outcomes.
func (r *record) point(at int64, outcomes []result.Outcome) Point {
	p := Point{
		At: time.UnixMilli(at * 100), Outcome: outcomes[r.what.outcome()],
		TTFT: result.Absent, TPOT: result.Absent, Late: r.what.atLeast(late), Aside: !r.what.atLeast(sample),
	}
	if r.what.atLeast(timed) {
		p.TTFT, p.TPOT = r.ttft.duration(), r.tpot.duration()
	}
	return p
}

// Points returns the latest n probes, at most MaxPoints, the latest last.
func (l *Log) Points(n int) []Point { return l.PointsIn(nil, n) }

// PointsIn is Points in the room of a slice, where that has enough.
func (l *Log) PointsIn(room []Point, n int) []Point {
	outcomes := result.Outcomes()
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, MaxPoints, l.n-l.waits)
	points := slices.Grow(room[:0], n)[:n]
	for at, r := range l.latest() {
		if n == 0 {
			break
		}
		if r.what.outcome() != waited {
			n--
			points[n] = r.point(at, outcomes)
		}
	}
	return points[n:]
}

// Usual returns the medians of TTFT and TPOT, in seconds, of the successful probes that
// started in the 24 hours before an instant, as far as they are kept; nil with fewer than
// 10.
func (l *Log) Usual(before time.Time) (ttft, tpot *float64) {
	var first, further []float64
	from := before.Add(-usualSpan)
	for _, p := range l.Points(MaxPoints) {
		if tenths(p.At) < tenths(from) || tenths(p.At) >= tenths(before) {
			continue
		}
		if p.TTFT >= 0 {
			first = append(first, p.TTFT.Seconds())
		}
		if p.TPOT >= 0 {
			further = append(further, p.TPOT.Seconds())
		}
	}
	return stats.MedianOf(first, minUsual), stats.MedianOf(further, minUsual)
}

// Samples without which an estimate says little: below, the 99th percentile is the slowest
// sample, and the median moves with every probe.
const minSamplesP50, minSamplesP99 = 10, 100

// Indexes of the statistics of a window.
const (
	P50 = iota
	P99
	P99Lower
	P99Upper
	NumWindowStats
)

// WindowStats lists the label values in the order of the indexes.
func WindowStats() []string { return []string{"p50", "p99", "p99_lower", "p99_upper"} }

// Window has the statistics of the last hour's times to first token.
type Window struct {
	// Samples is how many probes there are, failures before the first token included.
	Samples int
	// Seconds are the statistics by index; NaN where the samples do not carry one, or it
	// would be a token that did not come.
	Seconds [NumWindowStats]float64
}

// WindowRanks returns which of n samples is each statistic, counted from the smallest,
// which is 1; 0 when n is too few for it. The bounds of the 99th percentile hold with
// 95 % confidence each, without any assumption on the distribution.
func WindowRanks(n int) (ranks [NumWindowStats]int) {
	if n >= minSamplesP50 {
		ranks[P50] = stats.Rank(n, 0.5)
	}
	if n >= minSamplesP99 {
		ranks[P99] = stats.Rank(n, 0.99)
	}
	ranks[P99Lower], ranks[P99Upper] = stats.RankBounds(n, 0.99, 0.05)
	return ranks
}

// BeginWindow begins the window again, as for another model: with what is added from now on.
func (l *Log) BeginWindow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.added = 0
}

// Window returns the window of the hour before now. A first token that did not come is later
// than any other.
func (l *Log) Window(now time.Time) Window {
	var room [maxWindow]time.Duration
	sorted := l.samples(room[:0], now)
	slices.Sort(sorted)
	w := Window{Samples: len(sorted)}
	for i, rank := range WindowRanks(len(sorted)) {
		w.Seconds[i] = math.NaN()
		if rank > 0 && sorted[rank-1] != math.MaxInt64 {
			w.Seconds[i] = float64(sorted[rank-1]/time.Microsecond) / 1e6
		}
	}
	return w
}

// WindowSamples returns how many samples Window has.
func (l *Log) WindowSamples(now time.Time) int {
	var room [maxWindow]time.Duration
	return len(l.samples(room[:0], now))
}

// samples appends the times to first token of the last hour. What is more than an hour ahead,
// as the clock was set back, is left out.
func (l *Log) samples(all []time.Duration, now time.Time) []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.added
	for at, r := range l.latest() {
		if left == 0 || at <= tenths(now)-tenthsOfWindow || len(all) == maxWindow {
			break
		}
		left--
		if r.what&inWindow == 0 || at > tenths(now)+tenthsOfWindow {
			continue
		}
		d := r.ttft.duration()
		if d < 0 {
			d = math.MaxInt64
		}
		all = append(all, d)
	}
	return all
}

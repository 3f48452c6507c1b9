package series

import (
	"encoding/binary"
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
	// windowSpan is how far back a window looks, and usualSpan what is usual, which takes minUsual probes.
	windowSpan, usualSpan, minUsual = time.Hour, 24 * time.Hour, 10
)

// Log is the latest probes of one series. The zero value is ready. It is safe for concurrent use.
type Log struct {
	mu     sync.Mutex
	n      int    // records
	waits  int    // records of users who waited
	last   record // the latest, if there is one
	chunks *chunk // the records before it, the latest first; nil is none
	uptime uptime

	window                Window // from windowAt to windowUntil, in tenths of a second
	windowAt, windowUntil int64
	added                 uint64 // records since the window began

	pool      *Pool // nil is none
	kept      []Kept
	keptBytes int32 // of kept, in memory
}

// UsePool has the log share a pool with others. It comes before the first Add.
func (l *Log) UsePool(p *Pool) { l.pool = p }

// record is a probe, without what no reader of the log shows.
type record struct {
	at, pause  int64 // when it was and how long after the one before, in tenths of a second; at since 1970
	ttft, tpot micros
	what       what
}

// chunk is as many records as fill a size class of the allocator.
type chunk struct {
	before   *chunk // nil is none
	latest   int64  // record.at of its latest
	n, waits uint8
	free     uint8 // bytes in front of the records, of which the latest is the first
	bytes    [256 - 19]byte
}

// A step is at most so long, and read so far beyond its end.
const maxStep, readAhead = 15, 8

// put puts a record in front of the others, as the step to it from the one after it; false where there is no room.
func (c *chunk) put(r *record, step []byte) bool {
	if len(step) > int(c.free) {
		return false
	}
	c.free -= uint8(len(step))
	copy(c.bytes[c.free:], step)
	c.latest = r.at
	c.n++
	c.waits += uint8(bit(r.what.outcome() == waited))
	return true
}

// appendStep appends the step to the record before, mostly 6 bytes: how many there are of what follows, by how much the
// pause and the latencies are less, and the rest of the record unless that is the same.
func (r *record) appendStep(step []byte, before *record) []byte {
	step = append(step, 0)
	step, pause := appendSigned(step, r.pause-before.pause, 7)
	step, ttft := appendSigned(step, int64(r.ttft)-int64(before.ttft), 3)
	step, tpot := appendSigned(step, int64(r.tpot)-int64(before.tpot), 3)
	step[0] = pause | ttft<<3 | tpot<<5
	if r.what != before.what {
		step[0] |= 1 << 7
		step = append(step, byte(before.what))
	}
	return step
}

// appendSigned appends the fewest bytes of which signed makes v, none of 0; at most so many, as what reads a latency
// computes with three.
func appendSigned(bytes []byte, v int64, most uint8) (longer []byte, n uint8) {
	for n < most && (v != 0 || n > 0) {
		bytes, n = append(bytes, byte(v)), n+1
		if v == int64(int8(v)) {
			break
		}
		v >>= 8
	}
	return bytes, n
}

// signed returns the number of which the first n bytes were appended.
func signed(bytes uint64, n uint8) int64 { return int64(bytes<<(64-8*n)) >> (64 - 8*n) }

// step makes r the record before it, and returns the steps from there.
func (r *record) step(steps []byte) []byte {
	of := steps[0]
	pause, ttft, tpot := of&7, of>>3&3, of>>5&3
	r.at -= r.pause
	r.pause -= signed(binary.LittleEndian.Uint64(steps[1:]), pause)
	steps = steps[1+pause:]
	bytes := binary.LittleEndian.Uint64(steps)
	r.ttft = (r.ttft - micros(signed(bytes, ttft))) & absent
	bytes >>= 8 * ttft
	r.tpot = (r.tpot - micros(signed(bytes, tpot))) & absent
	if of>>7 == 1 {
		r.what = what(bytes >> (8 * tpot))
	}
	return steps[ttft+tpot+of>>7:]
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

// micros is a duration: 22 bits in units of 1, 10, 100 or 1,000 µs, so that it is exact to a
// microsecond below 4.19 s, and to a millionth up to an hour.
type micros uint32

const (
	microsBits = 22

	absent micros = 1<<24 - 1 // a duration that was not measured
)

// microsOf returns d, absent where it is or is longer than an hour, which no first token takes.
func microsOf(d time.Duration) micros {
	if d < 0 || d > time.Hour {
		return absent
	}
	unit, exponent := time.Microsecond, micros(0)
	for d.Round(unit)/unit >= 1<<microsBits {
		unit *= 10
		exponent++
	}
	return exponent<<microsBits | micros(d.Round(unit)/unit)
}

// duration returns what microsOf made m of, result.Absent where it is absent.
func (m micros) duration() time.Duration {
	if m == absent {
		return result.Absent
	}
	d := time.Duration(m&(1<<microsBits-1)) * time.Microsecond
	for range m >> microsBits {
		d *= 10
	}
	return d
}

// log returns the logarithm of a duration in seconds, which is above 0.
func (m micros) log() float64 {
	return math.Log(float64(m&(1<<microsBits-1))) + (float64(m>>microsBits)-6)*math.Ln10
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
	r := record{at: tenths(o.Start), ttft: microsOf(o.Timing.TTFT), tpot: microsOf(o.Timing.TPOT), what: what(i)}
	switch {
	case o.Judgement.IsLate():
		r.what |= late
	case o.Outcome == result.Success && o.Timed():
		r.what |= timed
	case o.IsSample():
		r.what |= sample
	}
	if o.IsSample() && !o.Cold && hasTokens(o.Result) && countsTTFT(o.Result) {
		r.what |= inWindow
	}
	allowance := l.pool.allowance()
	k := keep(o, allowance)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep(k, o.Result, allowance)
	l.add(r)
	if o.IsSample() {
		l.uptime.add(o)
	}
}

// AddWait adds a user who came at an instant, while a probe waited for its first token, and waited so long for one;
// negative is a token that did not come. Bad is a wait over the objective.
func (l *Log) AddWait(at time.Time, wait time.Duration, bad bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(record{at: tenths(at), ttft: microsOf(wait), tpot: absent, what: inWindow | waited})
	l.uptime.addWait(at, bad)
}

// add puts a record at the end. Where the clock was off by years, what came before has no time.
func (l *Log) add(r record) {
	if l.n > 0 {
		r.pause = r.at - l.last.at
	}
	if r.pause != int64(int32(r.pause)) {
		l.chunks, l.n, l.waits, r.pause = nil, 0, 0, 0
	}
	if l.n > 0 {
		step := r.appendStep(make([]byte, 0, maxStep), &l.last)
		if l.chunks == nil || !l.chunks.put(&l.last, step) {
			l.chunks = l.room(r.at)
			l.chunks.put(&l.last, step)
		}
	}
	l.last, l.windowUntil = r, 0
	l.n++
	l.added++
	if r.what.outcome() == waited {
		l.waits++
	}
}

// room returns a chunk for the next records: an old one, where all in it is neither shown nor of the last hour.
func (l *Log) room(now int64) *chunk {
	c := new(chunk)
	for l.chunks != nil {
		at := &l.chunks
		for (*at).before != nil {
			at = &(*at).before
		}
		oldest := *at
		left, waits := l.n-int(oldest.n), l.waits-int(oldest.waits)
		shown, old := left-waits < MaxPoints, oldest.latest+tenthsOfWindow <= now
		if left < maxWindow && (shown || !old) {
			break
		}
		l.n, l.waits = left, waits
		c, *at = oldest, nil
	}
	*c = chunk{before: l.chunks, free: uint8(len(c.bytes) - readAhead)}
	return c
}

// latest returns the records, the latest first.
func (l *Log) latest() iter.Seq[record] {
	return func(yield func(record) bool) {
		r := l.last
		if l.n == 0 || !yield(r) {
			return
		}
		for c := l.chunks; c != nil; c = c.before {
			for steps := c.bytes[c.free:]; len(steps) > readAhead; {
				if steps = r.step(steps); !yield(r) {
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
func (r *record) point(outcomes []result.Outcome) Point {
	p := Point{
		At: timeOfTenths(r.at), Outcome: outcomes[r.what.outcome()],
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
	for r := range l.latest() {
		if n == 0 {
			break
		}
		if r.what.outcome() != waited {
			n--
			points[n] = r.point(outcomes)
		}
	}
	return points[n:]
}

// Usual returns the medians of TTFT and TPOT, in seconds, of the successful probes that started in the 24 hours before
// an instant, as far as they are kept; nil with fewer than 10.
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

// WindowRanks returns which of n samples is each statistic, counted from the smallest, which is 1; 0 when n is too few
// for it. The bounds of the 99th percentile hold with 95 % confidence each, without any assumption on the distribution.
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
	l.added, l.windowUntil = 0, 0
}

// Window returns the window of the hour before now. A first token that did not come is later than any other.
func (l *Log) Window(now time.Time) Window {
	l.mu.Lock()
	defer l.mu.Unlock()
	if end := tenths(now); end < l.windowAt || end >= l.windowUntil {
		var room [maxWindow]time.Duration
		l.window, l.windowAt = windowOf(l.samples(room[:0], end)), end
	}
	return l.window
}

// windowOf returns the statistics of times to first token.
func windowOf(sorted []time.Duration) Window {
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

// samples appends the times to first token of the hour before end, and sets until when there are no others. What is more
// than an hour ahead, as the clock was set back, is left out.
func (l *Log) samples(all []time.Duration, end int64) []time.Duration {
	left := l.added
	l.windowUntil = math.MaxInt64
	for r := range l.latest() {
		if left == 0 || r.at <= end-tenthsOfWindow || len(all) == maxWindow {
			break
		}
		left--
		if r.what&inWindow == 0 {
			continue
		}
		l.windowUntil = min(l.windowUntil, r.at+tenthsOfWindow)
		if r.at > end+tenthsOfWindow {
			l.windowUntil = end
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

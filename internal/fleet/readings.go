package fleet

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Indexes of the quantities of a reading.
const (
	levelRunning = iota
	levelWaiting
	levelKVUsage
	levelPreemptions // per second
	levelGenerated   // tokens per second
	levelHits
	levelTTFT // means since the reading before, in seconds
	levelQueue
	levelPrefill
	levelInterToken
	levelUp
	numLevels
)

const (
	// latestReadings are those that make the value of now.
	latestReadings = 8
	// maxPastReadings bounds the readings of the last day that make what is usual, of
	// which it takes minPastReadings.
	maxPastReadings, minPastReadings = 128, 5
	// pastSpan is how far back these go.
	pastSpan = 24 * time.Hour
	// nowReadings is how many of the latest values are those of now, and nowSpan how old
	// they may be.
	nowReadings, nowSpan = 3, 5 * time.Minute
)

// reading is what all servers of an endpoint showed at one time; NaN is not known.
type reading struct {
	at     time.Time
	values [numLevels]float32
}

// readings are the latest readings of the servers' pages, and a sample of those of the
// last day, evenly spread.
type readings struct {
	statuses []page.Status // of the latest
	before   *page.Total   // nil where no page was read
	latest   []reading
	past     []reading
	every    int // of the readings, one goes into past
	since    int // readings since the latest of past
}

// read takes a reading of all pages.
func (m *memory) read(statuses []page.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.readings == nil {
		m.readings = new(readings)
	}
	m.readings.add(statuses)
}

func (r *readings) add(statuses []page.Status) {
	r.statuses = statuses
	if len(statuses) == 0 {
		return
	}
	next := newReading(statuses[0].At)
	up, lost := lostServers(statuses)
	if up > 0 || len(lost) > 0 {
		next.values[levelUp] = float32(up)
	}
	now := page.NewTotal(statuses)
	if now != nil {
		next.gauges(now)
	}
	if now != nil && now.Follows(r.before) {
		next.rates(r.before, now)
	}
	r.before = now
	r.latest = stats.AppendLatest(r.latest, next, latestReadings)
	r.sample(next)
}

// sample keeps one of so many readings that those kept span a day.
func (r *readings) sample(next reading) {
	r.since++
	if r.since < r.every {
		return
	}
	r.since = 0
	r.past = stats.DropOld(r.past, func(p reading) bool { return next.at.Sub(p.at) > pastSpan })
	r.past = append(r.past, next)
	if len(r.past) < maxPastReadings {
		return
	}
	kept := r.past[:0]
	for i := range r.past {
		if i%2 == 0 {
			kept = append(kept, r.past[i])
		}
	}
	r.past, r.every = kept, max(2, 2*r.every)
}

// newReading returns a reading of which nothing is known.
func newReading(at time.Time) reading {
	n := reading{at: at}
	for i := range n.values {
		n.values[i] = float32(math.NaN())
	}
	return n
}

// set sets a value; nil is not known.
func (n *reading) set(level int, v *float64) {
	if v != nil {
		n.values[level] = float32(*v)
	}
}

// gauges sets what a reading shows by itself.
func (n *reading) gauges(t *page.Total) {
	for level, q := range map[int]config.Quantity{
		levelRunning: config.RequestsRunning, levelWaiting: config.RequestsWaiting, levelKVUsage: config.KVCacheUsage,
	} {
		if v, ok := t.Values[q]; ok {
			n.values[level] = float32(v)
		}
	}
	n.set(levelHits, t.HitRatio)
}

// rates sets what follows from a reading and the one before.
func (n *reading) rates(before, now *page.Total) {
	elapsed := now.At.Sub(before.At).Seconds()
	if elapsed <= 0 {
		return
	}
	for level, q := range map[int]config.Quantity{levelPreemptions: config.Preemptions, levelGenerated: config.GenerationTokens} {
		if grown := now.Counted(before, q); grown != nil {
			n.values[level] = float32(*grown / elapsed)
		}
	}
	for level, q := range map[int]config.Quantity{
		levelTTFT: config.TTFT, levelQueue: config.QueueTime, levelPrefill: config.PrefillTime, levelInterToken: config.InterToken,
	} {
		n.set(level, now.Mean(before, q))
	}
}

// evidence returns what the servers show now, and usually showed before an instant; nil
// where no page is known. The interval is that of the readings.
func (r *readings) evidence(before time.Time, interval time.Duration) *explain.Servers {
	if len(r.statuses) == 0 || len(r.latest) == 0 {
		return nil
	}
	s := &explain.Servers{Known: len(r.statuses), Stuck: stuck(r.statuses, stuckReadings*interval)}
	s.Up, s.Lost = lostServers(r.statuses)
	for _, st := range r.statuses {
		if st.Snapshot != nil && st.Snapshot.Started.After(s.Started) {
			s.Started = st.Snapshot.Started
		}
	}
	if up := r.level(levelUp, before); up.Usual != nil {
		s.Usual = int(math.Round(*up.Usual))
	}
	for i, into := range map[int]**explain.Level{
		levelRunning: &s.Running, levelWaiting: &s.Waiting, levelKVUsage: &s.KVUsage, levelPreemptions: &s.Preemptions,
		levelGenerated: &s.Generated, levelHits: &s.Hits, levelTTFT: &s.TTFT, levelQueue: &s.Queue, levelPrefill: &s.Prefill,
		levelInterToken: &s.InterToken,
	} {
		if l := r.level(i, before); l.Now != nil || l.Usual != nil {
			*into = &l
		}
	}
	return s
}

// level returns a quantity now and as it was before an instant, by medians.
func (r *readings) level(i int, before time.Time) explain.Level {
	var now, usual []float64
	last := r.latest[len(r.latest)-1].at
	for _, n := range slices.Backward(r.latest) {
		if v := float64(n.values[i]); !math.IsNaN(v) && len(now) < nowReadings && last.Sub(n.at) <= nowSpan {
			now = append(now, v)
		}
	}
	for _, p := range r.past {
		if v := float64(p.values[i]); !math.IsNaN(v) && p.at.Before(before) {
			usual = append(usual, v)
		}
	}
	return explain.Level{Now: stats.MedianOf(now, 1), Usual: stats.MedianOf(usual, minPastReadings)}
}

// patienceOfPages is how long a page may take to show a request.
const patienceOfPages = 500 * time.Millisecond

// idle reports whether no request ran and none waited at the servers while one of the
// probes waited that timed out; nil where no reading was made then.
func (r *readings) idle(probes []explain.Probe) *bool {
	seen := false
	for _, n := range r.latest {
		waited := slices.ContainsFunc(probes, func(p explain.Probe) bool {
			return p.Outcome.IsTimeout() && n.at.Sub(p.At) > patienceOfPages && n.at.Before(p.At.Add(p.Duration))
		})
		requests := float64(n.values[levelRunning] + n.values[levelWaiting])
		switch {
		case !waited || math.IsNaN(requests):
		case requests > 0:
			return new(false)
		default:
			seen = true
		}
	}
	if !seen {
		return nil
	}
	return new(true)
}

// stuckReadings is how many intervals between readings a server with requests must
// generate nothing to be stuck.
const stuckReadings = 3

// stuck returns for how long that server has made no progress which is longest without
// although requests run on it; 0 is none, and less than the least is none.
func stuck(statuses []page.Status, least time.Duration) time.Duration {
	var longest time.Duration
	for i := range statuses {
		s := statuses[i].Snapshot
		if s == nil || s.LastProgress.IsZero() || s.Values[config.RequestsRunning] == 0 {
			continue
		}
		if d := s.At.Sub(s.LastProgress); d >= least {
			longest = max(longest, d)
		}
	}
	return longest
}

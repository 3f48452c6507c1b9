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
	before   totals
	latest   []reading
	past     []reading
	every    int // of the readings, one goes into past
	since    int // readings since the latest of past
}

// totals are counters of all servers together, of which rates are made.
type totals struct {
	at                     time.Time
	servers                []string
	preemptions, generated float64 // negative is not known
	histograms             [4]struct {
		count uint64
		sum   float64
		known bool
	}
}

// timings are the histograms of a reading, in the order of totals.histograms, with the
// level that the mean of each is.
func timings() [4]struct {
	quantity config.Quantity
	level    int
} {
	return [4]struct {
		quantity config.Quantity
		level    int
	}{{config.TTFT, levelTTFT}, {config.QueueTime, levelQueue}, {config.PrefillTime, levelPrefill}, {config.InterToken, levelInterToken}}
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
	next := reading{at: statuses[0].At}
	for i := range next.values {
		next.values[i] = float32(math.NaN())
	}
	up, lost := lostServers(statuses)
	if up > 0 || len(lost) > 0 {
		next.values[levelUp] = float32(up)
	}
	next.gauges(statuses)
	now := totalsOf(statuses)
	next.rates(&r.before, &now)
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

// gauges sets what a reading shows by itself.
func (n *reading) gauges(statuses []page.Status) {
	var hits, servers float64
	for i := range statuses {
		s := statuses[i].Snapshot
		if s == nil {
			continue
		}
		n.add(levelRunning, s, config.RequestsRunning)
		n.add(levelWaiting, s, config.RequestsWaiting)
		if v, ok := s.Values[config.KVCacheUsage]; ok {
			n.values[levelKVUsage] = float32(max(v, orZero(n.values[levelKVUsage])))
		}
		if s.PrefixCacheUnit != "" && s.PrefixCacheRatio >= 0 {
			hits += s.PrefixCacheRatio
			servers++
		}
	}
	if servers > 0 {
		n.values[levelHits] = float32(hits / servers)
	}
}

func (n *reading) add(level int, s *page.Snapshot, q config.Quantity) {
	if v, ok := s.Values[q]; ok {
		n.values[level] = float32(orZero(n.values[level]) + v)
	}
}

func orZero(v float32) float64 {
	if math.IsNaN(float64(v)) {
		return 0
	}
	return float64(v)
}

// totalsOf adds up the counters of all servers that are up. A counter that one of them
// lacks is not known.
func totalsOf(statuses []page.Status) totals {
	var t totals
	for i := range statuses {
		st := &statuses[i]
		if st.Snapshot == nil {
			continue
		}
		t.at = st.Snapshot.At
		first := len(t.servers) == 0
		t.servers = append(t.servers, st.Server)
		t.preemptions = addKnown(t.preemptions, st.Snapshot, config.Preemptions)
		t.generated = addKnown(t.generated, st.Snapshot, config.GenerationTokens)
		for k, timing := range timings() {
			h := st.Snapshot.Histograms[timing.quantity]
			into := &t.histograms[k]
			into.known = h != nil && (first || into.known)
			if h != nil {
				into.count += h.Count
				into.sum += h.Sum
			}
		}
	}
	return t
}

func addKnown(sum float64, s *page.Snapshot, q config.Quantity) float64 {
	v, ok := s.Values[q]
	if !ok || sum < 0 {
		return -1
	}
	return sum + v
}

// rates sets what follows from two readings of the same servers, none of which was
// restarted.
func (n *reading) rates(before, now *totals) {
	elapsed := now.at.Sub(before.at).Seconds()
	if elapsed <= 0 || len(now.servers) == 0 || !slices.Equal(before.servers, now.servers) {
		return
	}
	for _, c := range []struct {
		level         int
		before, after float64
	}{{levelPreemptions, before.preemptions, now.preemptions}, {levelGenerated, before.generated, now.generated}} {
		if c.before >= 0 && c.after >= c.before {
			n.values[c.level] = float32((c.after - c.before) / elapsed)
		}
	}
	for k, timing := range timings() {
		b, a := before.histograms[k], now.histograms[k]
		if b.known && a.known && a.count > b.count && a.sum >= b.sum {
			n.values[timing.level] = float32((a.sum - b.sum) / float64(a.count-b.count))
		}
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
	return explain.Level{Now: medianFrom(now, 1), Usual: medianFrom(usual, minPastReadings)}
}

// medianFrom returns the median of at least so many values; nil of fewer.
func medianFrom(values []float64, least int) *float64 {
	if len(values) < least {
		return nil
	}
	slices.Sort(values)
	return new(stats.Median(values))
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

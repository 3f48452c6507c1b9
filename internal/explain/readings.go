package explain

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
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

// Read takes a reading of all pages.
func (m *Memory) Read(statuses []page.Status) {
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
func (r *readings) evidence(before time.Time, interval time.Duration) *Servers {
	if len(r.statuses) == 0 || len(r.latest) == 0 {
		return nil
	}
	s := &Servers{Known: len(r.statuses), Stuck: stuck(r.statuses, stuckReadings*interval)}
	s.Up, s.Lost = lostServers(r.statuses)
	for _, st := range r.statuses {
		if st.Snapshot != nil && st.Snapshot.Started.After(s.Started) {
			s.Started = st.Snapshot.Started
		}
	}
	if up := r.level(levelUp, before); up.Usual != nil {
		s.Usual = int(math.Round(*up.Usual))
	}
	for i, into := range map[int]**Level{
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
func (r *readings) level(i int, before time.Time) Level {
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
	return Level{Now: stats.MedianOf(now, 1), Usual: stats.MedianOf(usual, minPastReadings)}
}

// patienceOfPages is how long a page may take to show a request.
const patienceOfPages = 500 * time.Millisecond

// idle reports whether no request ran and none waited at the servers while one of the
// probes waited that timed out; nil where no reading was made then.
func (r *readings) idle(probes []Probe) *bool {
	seen := false
	for _, n := range r.latest {
		waited := slices.ContainsFunc(probes, func(p Probe) bool {
			return p.Outcome.IsTimeout() && n.at.Sub(p.Start) > patienceOfPages && n.at.Before(p.Start.Add(p.Timing.Duration))
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

// lostServers returns how many servers are known and up, and names those that do not
// answer.
func lostServers(statuses []page.Status) (up int, lost []string) {
	for i := range statuses {
		switch st := &statuses[i]; st.State {
		case page.Up:
			up++
		case page.Down:
			lost = append(lost, fmt.Sprintf("%s: %s: %v", st.Server, st.Reason, st.Err))
		}
	}
	return up, lost
}

// Gateway is what the pages of a gateway showed last, and usually show. It is safe for
// concurrent use.
type Gateway struct {
	name string

	mu       sync.Mutex
	statuses []page.Status // of the latest reading of each page; nil before the first
	uses     page.GatewayUses
	levels   readings // of which levelUp is the backends that are ready
	wasRead  bool     // a page was
}

// NewGateway returns a gateway whose pages were not read yet.
func NewGateway(name string) *Gateway { return &Gateway{name: name} }

// Add takes in a reading of all pages.
func (g *Gateway) Add(statuses []page.Status) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.statuses = statuses
	now := page.NewTotal(statuses)
	if now == nil {
		return
	}
	before := g.uses.Latest()
	g.wasRead = true
	g.uses.Add(now)
	next := newReading(now.At)
	for q, i := range map[config.Quantity]int{config.RequestsWaiting: levelWaiting, config.BackendsReady: levelUp} {
		if v, ok := now.Values[q]; ok {
			next.values[i] = float32(v)
		}
	}
	if now.Follows(before) {
		next.set(levelQueue, now.Mean(before, config.QueueTime))
	}
	g.levels.latest = stats.AppendLatest(g.levels.latest, next, latestReadings)
	g.levels.sample(next)
}

// Latest returns what became of the latest reading of each page; nil before the first.
func (g *Gateway) Latest() []page.Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.statuses
}

// View calls a function with what the pages show, which it may not keep, and with how many
// backends are usually ready; nil where that is not known.
func (g *Gateway) View(view func(statuses []page.Status, uses *page.GatewayUses, usuallyReady *float64)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	view(g.statuses, &g.uses, g.usuallyReady())
}

// usuallyReady returns how many backends were ready in most readings of the last day; nil
// where that is not known.
func (g *Gateway) usuallyReady() *float64 {
	if len(g.levels.latest) == 0 {
		return nil
	}
	usual := g.levels.level(levelUp, g.levels.latest[len(g.levels.latest)-1].at).Usual
	if usual == nil {
		return nil
	}
	return new(math.Round(*usual))
}

// evidence returns what the pages show now, and usually showed before an instant; nil
// before the first reading, and without a gateway.
func (g *Gateway) evidence(before time.Time) *GatewayPages {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.statuses == nil {
		return nil
	}
	e := &GatewayPages{Name: g.name, Known: len(g.statuses), WasRead: g.wasRead}
	e.Up, e.Lost = lostServers(g.statuses)
	if e.Up == 0 {
		return e
	}
	latest := g.uses.Latest()
	if v, ok := latest.Values[config.Backends]; ok {
		e.Backends = &v
	}
	for i, into := range map[int]**Level{levelUp: &e.Ready, levelWaiting: &e.Waiting, levelQueue: &e.Queue} {
		if l := g.levels.level(i, before); l.Now != nil {
			*into = &l
		}
	}
	for _, backend := range slices.Sorted(maps.Keys(latest.Backends)) {
		if ready, ok := latest.Backends[backend].Values[config.BackendsReady]; ok && ready == 0 {
			e.NotReady = append(e.NotReady, backend)
		}
		if use := g.uses.Backend(backend); use.IsFailing() {
			e.Failing = append(e.Failing, fmt.Sprintf("backend %s of the gateway %s: %.0f of %.0f requests failed in the last %s",
				backend, g.name, *use.Failed, *use.Requests, g.uses.Span().Round(time.Second)))
		}
	}
	return e
}

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
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// hitRatio, onGPUs and pagesUp are what readings have beside the quantities of pages: the ratio of prompt tokens that came
// from the prefix cache, the part of the loaded model that is on GPUs, and the pages that answered.
const (
	hitRatio config.Quantity = "prefix_cache_hit_ratio"
	onGPUs   config.Quantity = "loaded_on_gpus_ratio"
	pagesUp  config.Quantity = "up"
)

// Indexes of some quantities.
const (
	indexUp = iota
	indexRunning
	indexWaiting
	indexReady
)

// quantity is one of a reading: what it is in words, and how its values are written.
type quantity struct {
	config.Quantity
	words string
	show  func(float64) string
}

var quantities = [...]quantity{
	indexUp:      {pagesUp, "", number},
	indexRunning: {config.RequestsRunning, "running requests", number},
	indexWaiting: {config.RequestsWaiting, "waiting requests", number},
	indexReady:   {config.BackendsReady, "backends ready", number},
	{config.Backends, "backends", number},
	{config.ModelsReady, "models ready", number},
	{config.Saturation, "saturation", percent},
	{config.KVCacheUsage, "KV cache in use", percent},
	{config.Preemptions, "preemptions per second", number},
	{config.GenerationTokens, "tokens per second", number},
	{hitRatio, "prefix cache hit ratio", percent},
	{onGPUs, "part of the loaded model on GPUs", percent},
	{config.TTFT, "TTFT by the servers", seconds},
	{config.QueueTime, "time in the queue", seconds},
	{config.PrefillTime, "prefill time by the servers", seconds},
	{config.InterToken, "time between tokens by the servers", seconds},
}

// of returns a quantity of all pages: a number, or the rate or the mean since those of the reading before, which is nil
// where the two cannot be compared. It returns nil where the quantity is not known.
func (q quantity) of(now, before *page.Total) *float64 {
	if now == nil {
		return nil
	}
	v, shown := now.Values[q.Quantity]
	switch {
	case q.Quantity == hitRatio:
		return now.HitRatio
	case q.Quantity == onGPUs:
		if whole := now.Values[config.LoadedModels]; whole > 0 {
			return new(now.Values[config.LoadedOnGPUs] / whole)
		}
		return nil
	case shown && !config.IsCounter(q.Quantity):
		return &v
	case before == nil:
		return nil
	case !shown:
		return now.Mean(before, q.Quantity)
	}
	return new(*now.Counted(before, q.Quantity) / now.At.Sub(before.At).Seconds())
}

const (
	// latestReadings are those that make the value of now.
	latestReadings = 8
	// maxPastReadings bounds the readings of the last day that make what is usual, of which it takes minPastReadings.
	maxPastReadings, minPastReadings = 128, 5
	// pastSpan is how far back these go.
	pastSpan = 24 * time.Hour
	// nowReadings is how many of the latest values are those of now, and nowSpan how old they may be.
	nowReadings, nowSpan = 3, 5 * time.Minute
)

// reading is what all servers of an endpoint showed at one time; NaN is not known.
type reading struct {
	at     time.Time
	values [len(quantities)]float32
}

// readings are the latest readings of some pages, and a sample of those of the last day, evenly spread.
type readings struct {
	statuses []page.Status // of the latest
	total    *page.Total   // of these; nil where no page was read
	latest   []reading
	past     []reading
	every    int // of the readings, one goes into past
	since    int // readings since the latest of past
}

// Read takes a reading of all pages.
func (m *Memory) Read(statuses []page.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readings.add(statuses)
}

func (r *readings) add(statuses []page.Status) {
	r.statuses = statuses
	if len(statuses) == 0 {
		return
	}
	now, before := page.NewTotal(statuses), r.total
	r.total = now
	if now == nil || !now.Follows(before) || !now.At.After(before.At) {
		before = nil
	}
	next := reading{at: statuses[0].At}
	for i, q := range quantities {
		next.values[i] = float32(workload.Known(q.of(now, before)))
	}
	if up, lost := upAndLost(statuses); up > 0 || len(lost) > 0 {
		next.values[indexUp] = float32(up)
	}
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
	if len(r.past) == maxPastReadings {
		i := 0
		r.past = slices.DeleteFunc(r.past, func(reading) bool { i++; return i%2 == 0 })
		r.every = max(2, 2*r.every)
	}
}

// evidence returns what the pages show now, and usually showed before an instant; nil where none is known. The interval
// is that of the readings.
func (r *readings) evidence(before time.Time, interval time.Duration) *Pages {
	if len(r.statuses) == 0 || len(r.latest) == 0 {
		return nil
	}
	p := &Pages{Known: len(r.statuses), Lag: lag(r.statuses), Levels: map[config.Quantity]Level{}}
	p.Stuck, p.Work = stuck(r.statuses, stuckReadings*interval)
	p.Up, p.Lost = upAndLost(r.statuses)
	for _, st := range r.statuses {
		if st.Snapshot != nil && st.Snapshot.Started.After(p.Started) {
			p.Started = st.Snapshot.Started
		}
	}
	for i, q := range quantities {
		if l := r.level(i, before); l.Now != nil || l.Usual != nil {
			p.Levels[q.Quantity] = l
		}
	}
	if usual := p.Levels[pagesUp].Usual; usual != nil {
		p.Usual = int(math.Round(*usual))
	}
	return p
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

// idle reports whether no request ran and none waited at the servers while one of the probes waited that timed out, as
// far as a reading was made then.
func (r *readings) idle(probes []*Probe) bool {
	seen := false
	for _, n := range r.latest {
		waited := slices.ContainsFunc(probes, func(p *Probe) bool {
			return p.Outcome.IsTimeout() && n.at.Sub(p.Start) > patienceOfPages && n.at.Before(p.Start.Add(p.Timing.Duration))
		})
		requests := float64(n.values[indexRunning] + n.values[indexWaiting])
		if waited && requests > 0 {
			return false
		}
		seen = seen || waited && requests == 0 // false for NaN, too
	}
	return seen
}

// stuckReadings is how many intervals between readings a server with requests must generate nothing to be stuck.
const stuckReadings = 3

// stuck returns for how long that server has made no progress which is longest without although it has requests, and what
// these do; 0 is none, and less than the least is none.
func stuck(statuses []page.Status, least time.Duration) (longest time.Duration, work string) {
	for i := range statuses {
		s := statuses[i].Snapshot
		if s == nil || s.LastProgress.IsZero() || s.At.Sub(s.LastProgress) < max(least, longest+1) {
			continue
		}
		running, waiting := s.Values[config.RequestsRunning], s.Values[config.RequestsWaiting]
		switch {
		case running+waiting == 0:
			continue
		case s.Ranks != nil:
			work = fmt.Sprintf("a rank of %d has requests", s.Ranks.Number)
		case running > 0:
			work = "requests run"
		case waiting == 1:
			work = "1 request waits, none runs"
		default:
			work = number(waiting) + " requests wait, none runs"
		}
		longest = s.At.Sub(s.LastProgress)
	}
	return longest, work
}

// lagFor is how long a rank must lag behind the others to be named.
const lagFor = 5 * time.Minute

// lag returns the lines that say how a rank of a server has lagged behind the others for long, and what the ranks show; nil
// for none.
func lag(statuses []page.Status) (lines []string) {
	for i := range statuses {
		s := statuses[i].Snapshot
		if s == nil || s.Ranks == nil {
			continue
		}
		since, words := s.Ranks.Starved, "had no request while some wait at others"
		if since.IsZero() || s.At.Sub(since) < lagFor {
			since, words = s.Ranks.Slow, "generated less than a quarter of the tokens of others with as many requests"
		}
		if since.IsZero() || s.At.Sub(since) < lagFor {
			continue
		}
		lines = append(lines, fmt.Sprintf("a rank of %d of %s has %s for %s", s.Ranks.Number, statuses[i].Server, words, seconds(s.At.Sub(since).Seconds())))
		for _, q := range quantities {
			if b, known := s.Ranks.Bounds[q.Quantity]; known {
				lines = append(lines, fmt.Sprintf("%s by rank: %s to %s", q.words, q.show(b[0]), q.show(b[1])))
			}
		}
		return lines
	}
	return nil
}

// upAndLost returns how many pages are known and up, and names those that do not answer.
func upAndLost(statuses []page.Status) (up int, lost []string) {
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

// Gateway is what the pages of a gateway showed last, and usually show. It is safe for concurrent use.
type Gateway struct {
	name string

	mu sync.Mutex
	readings
	uses page.GatewayUses
}

// NewGateway returns a gateway whose pages were not read yet.
func NewGateway(name string) *Gateway { return &Gateway{name: name} }

// Add takes in a reading of all pages.
func (g *Gateway) Add(statuses []page.Status) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.add(statuses)
	if g.total != nil {
		g.uses.Add(g.total)
	}
}

// Latest returns what became of the latest reading of each page; nil before the first, and without a gateway.
func (g *Gateway) Latest() []page.Status {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.statuses
}

// View calls a function with what the pages show, which it may not keep, and with how many backends were ready in most
// readings of the last day; nil where that is not known.
func (g *Gateway) View(view func(statuses []page.Status, uses *page.GatewayUses, usuallyReady *float64)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var usuallyReady *float64
	if n := len(g.latest); n > 0 {
		if usual := g.level(indexReady, g.latest[n-1].at).Usual; usual != nil {
			usuallyReady = new(math.Round(*usual))
		}
	}
	view(g.statuses, &g.uses, usuallyReady)
}

// evidence returns what the pages show now, and usually showed before an instant; nil before the first reading, and
// without a gateway.
func (g *Gateway) evidence(before time.Time) *Pages {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.readings.evidence(before, 0)
	if p == nil {
		return nil
	}
	latest := g.uses.Latest()
	p.Name, p.WasRead = g.name, latest != nil
	if p.Up == 0 {
		return p
	}
	for _, backend := range slices.Sorted(maps.Keys(latest.Backends)) {
		if ready, ok := latest.Backends[backend].Values[config.BackendsReady]; ok && ready == 0 {
			p.NotReady = append(p.NotReady, backend)
		}
		if use := g.uses.Backend(backend); use.IsFailing() {
			p.Failing = append(p.Failing, fmt.Sprintf("backend %s of the gateway %s: %.0f of %.0f requests failed in the last %s",
				backend, g.name, *use.Failed, *use.Requests, g.uses.Span().Round(time.Second)))
		}
	}
	p.Trouble = g.trouble(latest)
	return p
}

// trouble says in words what went wrong lately in choosing a backend, and in asking it.
func (g *Gateway) trouble(latest *page.Total) (all []string) {
	if stale := latest.Values[config.BackendsStale]; stale > 0 {
		all = append(all, fmt.Sprintf("the gateway %s lacks the metrics of %.0f backends, and takes them for full", g.name, stale))
	}
	use := g.uses.Whole()
	if use == nil {
		return all
	}
	for _, c := range []struct {
		count *float64
		text  string
	}{
		{use.DataLayerErrors, "reads of the metrics of its backends failed"},
		{use.Fallbacks, "requests were given to another model after failures"},
		{use.FallbackFailures, "of these fallbacks failed as well"},
		{use.Retries, "requests were sent once more"},
	} {
		if c.count != nil && *c.count > 0 {
			all = append(all, fmt.Sprintf("gateway %s: %.0f %s in the last %s", g.name, *c.count, c.text, g.uses.Span().Round(time.Second)))
		}
	}
	return all
}

package users

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

const (
	// missedReadings is how many readings a server may miss for what it counted to be of the latest interval, and
	// forgetAfter is after how long without a page it is a new one.
	missedReadings = 3
	forgetAfter    = time.Hour
	// probeMemory is the time constant of the comparison with our own probes, and userShare how many times as many
	// requests as those there must be for users to be among them.
	probeMemory = 5 * time.Minute
	userShare   = 2
)

// Tracker counts the requests of users of one endpoint. It is safe for concurrent use.
type Tracker struct {
	mu         sync.Mutex
	objectives *series.Objectives
	round      int
	servers    map[string]*server // by name, those of the gateway with a slash before it
	// own are the objectives that a server has shown, front those that the gateway has.
	own, front series.Set
	counts     [series.NumObjectives]Count
	hour       hour
	aside      int // readings to come that do not count

	// The comparison with our own probes: those since the latest reading, and what there was of late.
	at      time.Time
	probes  float64
	sent    float64
	arrived [series.NumObjectives]float64
}

type server struct {
	page  *page.Snapshot
	round int // of the reading
}

// NewTracker returns a tracker that has read nothing yet.
func NewTracker(o *series.Objectives) *Tracker {
	return &Tracker{objectives: o, servers: map[string]*server{}}
}

// Configure replaces the objectives. What is counted goes on.
func (t *Tracker) Configure(o *series.Objectives) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.objectives = o
}

// Probed takes notice of a request of our own, which the pages count as well.
func (t *Tracker) Probed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.probes++
}

// SetAside means that the next readings show requests of a load test of our own: nothing that they count is of users.
func (t *Tracker) SetAside(readings int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.aside = readings
}

// View returns what is known at a time; nil where the pages say nothing.
func (t *Tracker) View(now time.Time) *View {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own|t.front == 0 {
		return nil
	}
	v := &View{Counts: map[string]Count{}, TTFT: t.hour.window(now)}
	for o, name := range series.ObjectiveNames() {
		if o := series.Objective(o); t.objectives.Has(o) && (t.own | t.front).Has(o) {
			v.Counts[name] = t.counts[o]
		}
	}
	return v
}

// increment is what a server counted since its page before.
type increment struct {
	counted
	since time.Time
	late  bool // since before the latest interval
}

// Read takes in the latest pages of the servers, and those of the replicas of a gateway that serves this endpoint alone.
// It returns nil where they show no requests of users. The first page of a server is where its count begins. What one
// counted while its pages were away for several readings is among the counts of View, but not in the reading, as it
// is not known when that was.
func (t *Tracker) Read(servers, gateway []page.Status) *Reading {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
	own, front := t.increments("", servers, &t.own), t.increments("/", gateway, &t.front)
	if t.aside > 0 {
		own, front, t.probes = nil, nil, 0
		t.aside--
	}
	r := &Reading{At: t.at, Objectives: t.objectives}
	for _, s := range t.servers {
		if s.round == t.round && s.page.At.After(r.At) {
			r.At = s.page.At
		}
	}
	decay := math.Exp(-r.At.Sub(t.at).Seconds() / probeMemory.Seconds())
	t.at, t.sent, t.probes = r.At, t.sent*decay+t.probes, 0
	var used series.Set
	for o := range series.NumObjectives {
		if t.count(r, o, t.source(o, own, front), decay) {
			used |= 1 << o
		}
	}
	maps.DeleteFunc(t.servers, func(_ string, s *server) bool { return t.at.Sub(s.page.At) > forgetAfter })
	if used == 0 {
		return nil
	}
	m := momentOf(used, t.source(series.Availability, own, front), t.source(series.TTFT, own, front))
	r.Why = t.hour.add(r.At, m, slices.ContainsFunc(r.Counts[:], func(c Count) bool { return c.Possible > 0 }))
	return r
}

// source returns the pages that say how an objective was met. Those of a gateway alone show requests that came to no
// server; latencies are those of the servers where these have ever shown them, as nothing may be counted twice.
func (t *Tracker) source(o series.Objective, own, front []increment) []increment {
	if t.front.Has(o) && (o == series.Availability || !t.own.Has(o)) {
		return front
	}
	return own
}

// count adds what increments show of an objective, unless it is hardly more than our own probes.
func (t *Tracker) count(r *Reading, o series.Objective, from []increment, decay float64) bool {
	var all, recent Count
	since := r.At
	for i := range from {
		n := from[i].count(o, t.objectives.Limit(o))
		all = all.plus(n)
		if !from[i].late {
			recent = recent.plus(n)
			if from[i].since.Before(since) {
				since = from[i].since
			}
		}
	}
	t.arrived[o] = t.arrived[o]*decay + float64(all.Eligible)
	if all.Eligible == 0 || t.arrived[o] <= userShare*(t.sent+1) {
		return false
	}
	t.counts[o], r.Counts[o] = t.counts[o].plus(all), recent
	if r.Since.IsZero() || since.Before(r.Since) {
		r.Since = since
	}
	return recent.Eligible > 0
}

// increments returns what servers counted since their pages before, keeps the pages, and adds the objectives they show.
func (t *Tracker) increments(prefix string, statuses []page.Status, shown *series.Set) (all []increment) {
	for i := range statuses {
		now, name := statuses[i].Snapshot, prefix+statuses[i].Server
		if now == nil {
			continue
		}
		var whole counted
		whole.add(new(page.Snapshot), now, false)
		for o := range series.NumObjectives {
			if o == series.Availability && whole.ends || whole.latency[o] != nil {
				*shown |= 1 << o
			}
		}
		if before := t.servers[name]; before != nil && now.At.Sub(before.page.At) < forgetAfter {
			all = append(all, increment{
				counted: between(before.page, now), since: before.page.At, late: t.round-before.round > missedReadings,
			})
		}
		t.servers[name] = &server{now, t.round}
	}
	return all
}

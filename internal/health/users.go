package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/users"
)

// Witness is who saw the incident that pages. The set is closed: it is a label value.
type Witness string

// The witnesses.
const (
	Probes     Witness = "probes"      // and of users too little is known
	ProbesOnly Witness = "probes_only" // although users' requests are well
	Users      Witness = "users"       // although probes are well
	Both       Witness = "both"
)

// Witnesses lists the closed set.
func Witnesses() []Witness { return []Witness{Probes, ProbesOnly, Users, Both} }

// means says for people where the fault is; "" is not known.
func (w Witness) means() string {
	return map[Witness]string{
		Both: "probes and users' requests: the service", Users: "users' requests only: a workload or tenant", ProbesOnly: "probes only: the path or the prober",
	}[w]
}

const (
	// window is the time over which users' requests are judged, in spans that are forgotten as a whole.
	window, spanLength = time.Hour, 5 * time.Minute
	// A reading stands for the time since the one before that had requests, up to fewTime before its own.
	fewTime = 2 * time.Minute
	// fewestBad is how many bad readings an incident has at least, and badChance how likely it is at most that so many of an hour are
	// bad by chance.
	fewestBad, badChance = 5, 1e-5
	// Of the peaks of the last peakDays days the usualPeak-th is usual, as larger ones may be of incidents. Late answers are none
	// below peakFactor times as many, or mostBad of all.
	peakDays, usualPeak, peakFactor, mostBad = 7, 3, 3.5, 0.5
	// exactly lets what is equal be so but for its last bits.
	exactly = 1 + 1e-9
	// silence is after how long without a request of users their incident is over.
	silence = day
)

// crowd is what users' requests show by one objective. A reading of pages is judged like a probe: it is bad when its share of bad requests is
// severe and more than chance explains while the objective is met, which happens by chance no more often than the objective allows.
// Many bad readings within an hour that had severely many bad requests are an incident.
type crowd struct {
	Spans []tally           `json:"spans,omitempty"` // of the last hour, the oldest first
	Peaks map[int64]float64 `json:"peaks,omitempty"` // the largest share of an hour that was bad, by the day since 1970
	// Spell is that of bad readings each of which came within a gap of the one before; nil is none. Raised reports whether it is an incident.
	Spell  *Incident `json:"spell,omitempty"`
	Raised bool      `json:"raised,omitempty"`
	Well   tally     `json:"well,omitzero"`  // since the latest bad reading
	Since  tally     `json:"since,omitzero"` // since the beginning of the incident that goes on
}

// tally counts the readings of a time, their requests, and those of which are bad, or perhaps bad.
type tally struct {
	From     time.Time     `json:"from,omitzero"`
	At       time.Time     `json:"at,omitzero"`
	Readings int           `json:"readings,omitempty"`
	BadOnes  int           `json:"bad_ones,omitempty"`
	Requests int           `json:"requests,omitempty"`
	Bad      int           `json:"bad,omitempty"`
	Possible int           `json:"possible,omitempty"`
	BadTime  time.Duration `json:"bad_time,omitempty"` // of the bad readings
	Worth    time.Duration `json:"worth,omitempty"`    // of all, each times its share of bad requests
}

func (t *tally) add(more tally) {
	if t.Readings == 0 {
		t.From = more.From
	}
	t.At = more.At
	t.Readings += more.Readings
	t.BadOnes += more.BadOnes
	t.Requests += more.Requests
	t.Bad += more.Bad
	t.Possible += more.Possible
	t.BadTime += more.BadTime
	t.Worth += more.Worth
}

// isBelow reports whether requests of which so many are bad would come in fewer than 1 % of all cases if that share were.
func (t *tally) isBelow(bad int, share float64) bool {
	return t.Readings >= minCleanRun && float64(bad) < share*float64(t.Requests) && stats.AtLeast(t.Requests, t.Requests-bad, 1-share) < cleanChance
}

// bounds are what makes an incident of bad requests.
type bounds struct {
	// times is how many times as many as the objective allows are severe, up to that many of a hundred, and at least double. least is
	// for how long readings are bad at least, which is longer than a burst of requests that overloads an endpoint.
	times float64
	least time.Duration
}

// boundsOf returns those of an objective. Answers that are late have a memory, and failures less so.
func boundsOf(i series.Objective) bounds {
	if i == series.Availability {
		return bounds{10, 6 * time.Minute}
	}
	return bounds{14, 8*time.Minute + 30*time.Second}
}

// severe returns the share of bad requests that is severe where an objective allows some.
func (b bounds) severe(allowed float64) float64 {
	return max(b.times*min(allowed, 0.01), 2*allowed)
}

// take makes a tally of a reading with requests that stands for the time since the one before.
func (b bounds) take(of users.Count, allowed float64, from, at time.Time) tally {
	took := min(max(0, at.Sub(from)), spanLength)
	t := tally{From: from, At: at, Readings: 1, Requests: int(of.Eligible), Bad: int(of.Bad), Possible: int(of.Possible)}
	share := float64(t.Bad) / float64(t.Requests)
	t.Worth = time.Duration(float64(took) * share)
	if share*exactly >= b.severe(allowed) && stats.AtLeast(t.Requests, t.Bad, allowed) <= allowed*exactly {
		t.BadOnes, t.BadTime = 1, took
	}
	return t
}

// observe takes a reading with requests, and returns whether they are bad.
func (c *crowd) observe(r *users.Reading, i series.Objective, promise *series.Objectives) bool {
	from := r.Since
	if last := c.latest(); from.Sub(last) < fewTime {
		from = last
	}
	now := boundsOf(i).take(r.Counts[i], 1-promise.Share, from, r.At)
	c.Spans = slices.DeleteFunc(c.Spans, func(s tally) bool { return r.At.Sub(s.From) > window })
	if n := len(c.Spans); n == 0 || r.At.Sub(c.Spans[n-1].From) > spanLength {
		c.Spans = append(c.Spans, tally{})
	}
	c.Spans[len(c.Spans)-1].add(tally{From: now.From, Readings: 1, BadOnes: now.BadOnes, BadTime: now.BadTime, Worth: now.Worth}) // what is saved is small
	c.Well.add(now)
	c.Since.add(now)
	if now.BadOnes == 0 {
		return false
	}
	if c.Spell == nil || !c.Raised && from.Sub(c.Spell.Latest) > max(clusterGap, minClusterIntervals*now.BadTime) {
		c.Spell = &Incident{State: Degraded, Begin: r.Since, Missed: 1 << i, Users: "failed"}
		if i != series.Availability {
			c.Spell.State, c.Spell.Users = Slow, fmt.Sprintf("over %s %s", strings.ToUpper(series.ObjectiveNames()[i]), promise.Limit(i))
		}
		c.Well = now
	}
	c.Spell.Probes += c.Well.Requests
	c.Spell.Bad += c.Well.Bad
	c.Spell.Latest = r.At
	if r.Why != "" {
		c.Spell.Text = safetext.Line(r.Why, maxFirst)
	}
	c.Well = tally{}
	return true
}

// latest returns when the latest reading with requests was.
func (c *crowd) latest() time.Time {
	if c.Spell != nil && c.Spell.Latest.After(c.Well.At) {
		return c.Spell.Latest
	}
	return c.Well.At
}

func (c *crowd) hour() (all tally) {
	for _, s := range c.Spans {
		all.add(s)
	}
	return all
}

// share returns the share of the last hour, of which the tally is, that was bad.
func (t *tally) share() float64 { return float64(t.Worth) / float64(window) }

// isIncident reports whether the bad readings of the last hour are one. Today is the day since 1970.
func (c *crowd) isIncident(hour *tally, i series.Objective, allowed float64, today int64) bool {
	of := boundsOf(i)
	need := max(of.severe(allowed), min(mostBad, peakFactor*c.usual(today)))
	return hour.share()*exactly >= need && hour.BadTime >= of.least && hour.BadOnes >= fewestBad && stats.AtLeast(hour.Readings, hour.BadOnes, allowed) <= badChance
}

// rememberPeak keeps the share of an hour that was bad, if it is the largest of the day.
func (c *crowd) rememberPeak(today int64, share float64) {
	if c.Peaks == nil {
		c.Peaks = map[int64]float64{}
	}
	maps.DeleteFunc(c.Peaks, func(at int64, _ float64) bool { return at < today-peakDays })
	c.Peaks[today] = max(share, c.Peaks[today])
}

// usual returns the share of an hour that is bad at the worst time of the days before one; 0 where too few are known.
func (c *crowd) usual(today int64) float64 {
	var before []float64
	for at, share := range c.Peaks {
		if at != today {
			before = append(before, share)
		}
	}
	if len(before) < usualPeak {
		return 0
	}
	slices.Sort(before)
	return before[len(before)-usualPeak]
}

// isOver reports whether users' requests are well again: so good since the latest bad reading as they would be in fewer than 1 % of all
// cases if nothing had changed, and for as long as noise may remember.
func (c *crowd) isOver() bool {
	return c.Well.At.Sub(c.Spell.Latest) >= clusterGap && c.Well.isBelow(c.Well.Bad, lowerShare(float64(c.Spell.Bad), float64(c.Spell.Probes)))
}

// isSane reports whether it may be of this machine's past.
func (c *crowd) isSane(now time.Time) bool {
	if c == nil {
		return true
	}
	for _, t := range append(c.Spans, c.Well, c.Since) {
		if t.At.After(now) || t.Bad < 0 || t.Requests < t.Bad || t.BadOnes < 0 || t.Readings < t.BadOnes {
			return false
		}
	}
	i := c.Spell
	return i == nil && !c.Raised || i != nil && !i.Begin.After(now) && !i.Begin.IsZero() && !i.Latest.After(now) && i.Bad > 0 && i.Probes >= i.Bad
}

func (c *crowd) clone() *crowd {
	if c = copyOf(c); c != nil {
		c.Spans, c.Peaks, c.Spell = slices.Clone(c.Spans), maps.Clone(c.Peaks), copyOf(c.Spell)
	}
	return c
}

// ObserveUsers takes what users' requests showed between two readings of the pages. One without requests, or while the
// model sleeps, changes nothing.
func (e *Endpoint) ObserveUsers(r *users.Reading) {
	now := e.lock()
	defer e.mu.Unlock()
	e.refresh(now)
	if e.Asleep != nil || r.Objectives == nil || r.Objectives.Share <= 0 {
		return // of the time before
	}
	if e.promise != nil && *e.promise != *r.Objectives { // what was bad is so no more
		e.forgetUsers(now)
	}
	e.promise = r.Objectives
	for i, of := range r.Counts {
		if of.Eligible == 0 {
			continue
		}
		if e.Users[i] == nil {
			e.Users[i] = &crowd{}
		}
		e.takeUsers(e.Users[i], r, series.Objective(i))
	}
	e.refresh(now)
}

func (e *Endpoint) takeUsers(c *crowd, r *users.Reading, o series.Objective) {
	if e.Paging == nil && e.Failing == nil && e.Slow == nil {
		c.Since = tally{}
	}
	bad := c.observe(r, o, e.promise)
	hour, today := c.hour(), r.At.Unix()/int64(day/time.Second)
	if o != series.Availability { // failures that come together are an outage, whatever came before
		c.rememberPeak(today, hour.share())
	}
	switch certain := c.isIncident(&hour, o, 1-e.promise.Share, today); {
	case !c.Raised && bad && certain:
		c.Raised = true
		e.logger().Warn("users' requests miss an objective", "slo", series.ObjectiveNames()[o], "since", c.Spell.Begin.UTC(),
			"requests", c.Spell.Probes, "bad", c.Spell.Bad, "reason", c.Spell.Text)
	case c.Raised && c.isOver():
		e.endUsers(c, c.Well.From)
	}
}

func (e *Endpoint) endUsers(c *crowd, end time.Time) {
	i := c.Spell
	c.Spell, c.Raised, c.Spans = nil, false, nil
	i.End = end
	if !e.Up.IsZero() && end.After(e.Up) {
		e.Up = end
	}
	e.keep(*i)
	e.logger().Info("users' requests meet their objective again", "since", i.Begin.UTC(), "duration", i.End.Sub(i.Begin).Round(time.Second),
		"requests", i.Probes, "bad", i.Bad)
}

func (e *Endpoint) forgetUsers(now time.Time) {
	for _, c := range e.raised() {
		e.endUsers(c, now)
	}
	clear(e.Users[:])
}

// endSilence ends the incidents of users of whom nothing comes any more.
func (e *Endpoint) endSilence(now time.Time) {
	for _, c := range e.raised() {
		if now.Sub(c.latest()) > silence {
			e.endUsers(c, c.Spell.Latest)
		}
	}
}

// raised returns what users' requests show by the objectives that they miss.
func (e *Endpoint) raised() (all []*crowd) {
	for _, c := range e.Users {
		if c != nil && c.Raised {
			all = append(all, c)
		}
	}
	return all
}

// usersIncident returns the first incident of users that makes an endpoint of a state; nil is none.
func (e *Endpoint) usersIncident(state State) (first *Incident) {
	for _, c := range e.raised() {
		if i := c.Spell; i.State == state && (first == nil || i.Begin.Before(first.Begin)) {
			first = i
		}
	}
	return first
}

// certainOfUsers is certain by what users' requests show.
func (e *Endpoint) certainOfUsers() (Kind, time.Time) {
	for _, kind := range []Kind{KindFailing, KindTTFT, KindTPOT} {
		if i := e.usersOf(kind); i != nil {
			return kind, i.Begin
		}
	}
	return "", time.Time{}
}

// objective is what an incident of the kind misses.
func (k Kind) objective() series.Objective {
	return map[Kind]series.Objective{KindTTFT: series.TTFT, KindTPOT: series.TPOT}[k] // and else availability
}

// usersOf returns the incident of users that is of a kind; nil is none.
func (e *Endpoint) usersOf(kind Kind) *Incident {
	if c := e.Users[kind.objective()]; c != nil && c.Raised {
		return c.Spell
	}
	return nil
}

// areUsersWell reports whether users' requests since the incident began are not as bad as it would take, the doubtful ones included.
func (e *Endpoint) areUsersWell(kind Kind) bool {
	c := e.Users[kind.objective()]
	return c != nil && e.promise != nil && c.Since.isBelow(c.Since.Possible, boundsOf(kind.objective()).severe(1-e.promise.Share))
}

// users says what users had: "users: 340 of 1,200 requests over TTFT 500ms since 14:02 UTC: prompts are 4 times as long". Now is zero without the time.
func (i *Incident) users(now time.Time) string {
	text := fmt.Sprintf("users: %s of %s requests %s", stats.Grouped(float64(i.Bad)), stats.Grouped(float64(i.Probes)), i.Users)
	if !now.IsZero() {
		text += " since " + clock(i.Begin, now)
	}
	if i.Text != "" {
		text += ": " + i.Text
	}
	return text
}

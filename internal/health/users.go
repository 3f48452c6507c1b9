package health

import (
	"fmt"
	"slices"
	"strconv"
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
	Spans []span `json:"spans,omitempty"` // of the last hour, the oldest first
	Peaks []peak `json:"peaks,omitempty"` // of the last days, the oldest first
	// Spell is that of bad readings each of which came within a gap of the one before; nil is none. Raised reports whether it is an incident.
	Spell  *Incident `json:"spell,omitempty"`
	Raised bool      `json:"raised,omitempty"`
	Well   tally     `json:"well,omitzero"`  // since the latest bad reading
	Since  tally     `json:"since,omitzero"` // since the beginning of the incident that goes on
}

// span is a part of the last hour.
type span struct {
	Begin    time.Time     `json:"begin"`
	Worth    time.Duration `json:"worth,omitempty"` // the time of its readings, each times its share of bad requests
	Bad      time.Duration `json:"bad,omitempty"`   // the time of its bad readings
	Readings int           `json:"readings"`
	BadOnes  int           `json:"bad_ones,omitempty"`
}

// peak is the largest share of an hour that was bad on one day.
type peak struct {
	Day   int64   `json:"day"` // since 1970
	Share float64 `json:"share"`
}

// tally counts requests of users.
type tally struct {
	From     time.Time `json:"from,omitzero"`
	At       time.Time `json:"at,omitzero"`
	Readings int       `json:"readings,omitempty"`
	Requests int       `json:"requests,omitempty"`
	Bad      int       `json:"bad,omitempty"`
	Possible int       `json:"possible,omitempty"`
}

func (t *tally) add(r *users.Reading, of users.Count) {
	if t.Readings == 0 {
		t.From = r.Since
	}
	t.At = r.At
	t.Readings++
	t.Requests += int(of.Eligible)
	t.Bad += int(of.Bad)
	t.Possible += int(of.Possible)
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

// isBad reports whether a reading is bad.
func (b bounds) isBad(of users.Count, allowed float64) bool {
	return float64(of.Bad)*exactly >= b.severe(allowed)*float64(of.Eligible) && stats.AtLeast(int(of.Eligible), int(of.Bad), allowed) <= allowed*exactly
}

// observe takes a reading with requests, and returns whether they are bad.
func (c *crowd) observe(r *users.Reading, i series.Objective, promise *series.Objectives) bool {
	of, allowed := r.Counts[i], 1-promise.Share
	begin := r.Since
	if last := c.latest(); begin.Sub(last) < fewTime {
		begin = last
	}
	took := min(max(0, r.At.Sub(begin)), spanLength)
	bad := boundsOf(i).isBad(of, allowed)
	c.Spans = slices.DeleteFunc(c.Spans, func(s span) bool { return r.At.Sub(s.Begin) > window })
	if n := len(c.Spans); n == 0 || r.At.Sub(c.Spans[n-1].Begin) > spanLength {
		c.Spans = append(c.Spans, span{Begin: r.Since})
	}
	s := &c.Spans[len(c.Spans)-1]
	s.Readings++
	s.Worth += time.Duration(float64(took) * float64(of.Bad) / float64(of.Eligible))
	if bad {
		s.BadOnes++
		s.Bad += took
	}
	c.Well.add(r, of)
	c.Since.add(r, of)
	if bad {
		what := "failed"
		if i != series.Availability {
			what = fmt.Sprintf("over %s %s", strings.ToUpper(series.ObjectiveNames()[i]), promise.Limit(i))
		}
		c.spell(r, i, what, max(clusterGap, minClusterIntervals*took))
	}
	return bad
}

// latest returns when the latest reading with requests was.
func (c *crowd) latest() time.Time {
	if c.Spell != nil && c.Spell.Latest.After(c.Well.At) {
		return c.Spell.Latest
	}
	return c.Well.At
}

// spell takes a bad reading.
func (c *crowd) spell(r *users.Reading, i series.Objective, what string, gap time.Duration) {
	if c.Spell == nil || !c.Raised && r.Since.Sub(c.Spell.Latest) > gap {
		state := Slow
		if i == series.Availability {
			state = Degraded
		}
		c.Spell = &Incident{State: state, Begin: r.Since, Missed: 1 << i, Users: what}
		c.Well.Requests, c.Well.Bad = int(r.Counts[i].Eligible), int(r.Counts[i].Bad)
	}
	c.Spell.Probes += c.Well.Requests
	c.Spell.Bad += c.Well.Bad
	c.Spell.Latest = r.At
	if r.Why != "" { // it is told from the hour before, which the incident fills in time
		c.Spell.Text = safetext.Line(r.Why, maxFirst)
	}
	c.Well = tally{}
}

// isIncident reports whether the bad readings of the last hour are one.
func (c *crowd) isIncident(i series.Objective, allowed float64, now time.Time) bool {
	var all span
	for _, s := range c.Spans {
		all.Worth += s.Worth
		all.Bad += s.Bad
		all.Readings += s.Readings
		all.BadOnes += s.BadOnes
	}
	share := float64(all.Worth) / float64(window)
	of := boundsOf(i)
	need := of.severe(allowed)
	if i != series.Availability { // failures that come together are an outage, whatever came before
		need = max(need, min(mostBad, peakFactor*c.usual(now, share)))
	}
	return share*exactly >= need && all.Bad >= of.least && all.BadOnes >= fewestBad && stats.AtLeast(all.Readings, all.BadOnes, allowed) <= badChance
}

// usual returns the share of an hour that is bad at the worst time of usual days, and remembers that of the last hour.
func (c *crowd) usual(now time.Time, share float64) float64 {
	today := now.Unix() / int64(day/time.Second)
	c.Peaks = slices.DeleteFunc(c.Peaks, func(p peak) bool { return p.Day < today-peakDays })
	if n := len(c.Peaks); n == 0 || c.Peaks[n-1].Day != today {
		c.Peaks = append(c.Peaks, peak{Day: today})
	}
	last := len(c.Peaks) - 1
	c.Peaks[last].Share = max(c.Peaks[last].Share, share)
	if last < usualPeak {
		return 0
	}
	before := make([]float64, last)
	for i, p := range c.Peaks[:last] {
		before[i] = p.Share
	}
	slices.Sort(before)
	return before[last-usualPeak]
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
	i := c.Spell
	if c.Raised && i == nil || i != nil && (i.Begin.After(now) || i.Begin.IsZero() || i.Latest.After(now) || i.Bad < 1 || i.Probes < i.Bad) {
		return false
	}
	for _, t := range []tally{c.Well, c.Since} {
		if t.At.After(now) || t.Bad < 0 || t.Possible < t.Bad || t.Requests < t.Possible {
			return false
		}
	}
	return !slices.ContainsFunc(c.Spans, func(s span) bool { return s.Begin.After(now) || s.BadOnes < 0 || s.Readings < s.BadOnes })
}

func (c *crowd) copy() *crowd {
	if c == nil {
		return nil
	}
	out := *c
	out.Spans, out.Peaks, out.Spell = slices.Clone(c.Spans), slices.Clone(c.Peaks), copyOf(c.Spell)
	return &out
}

// ObserveUsers takes what users' requests showed between two readings of the pages. One without requests, or while the
// model sleeps, changes nothing.
func (e *Endpoint) ObserveUsers(r *users.Reading) {
	now := e.shared.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refresh(now)
	if e.asleep != nil || r.Objectives == nil || r.Objectives.Share <= 0 {
		return // of the time before
	}
	if e.promise != nil && *e.promise != *r.Objectives { // what was bad is so no more
		e.forgetUsers(func(series.Objective) bool { return true }, now)
	}
	e.promise = r.Objectives
	for i, of := range r.Counts {
		o := series.Objective(i)
		if of.Eligible == 0 {
			continue
		}
		if e.users[i] == nil {
			e.users[i] = &crowd{}
		}
		e.takeUsers(e.users[i], r, o)
	}
	e.refresh(now)
}

func (e *Endpoint) takeUsers(c *crowd, r *users.Reading, o series.Objective) {
	if e.paging == nil && e.failing == nil && e.slow == nil {
		c.Since = tally{}
	}
	bad := c.observe(r, o, e.promise)
	certain := c.isIncident(o, 1-e.promise.Share, r.At)
	switch {
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
	if !e.up.IsZero() && end.After(e.up) {
		e.up = end
	}
	e.keep(*i)
	e.logger().Info("users' requests meet their objective again", "since", i.Begin.UTC(), "duration", i.End.Sub(i.Begin).Round(time.Second),
		"requests", i.Probes, "bad", i.Bad)
}

// leaveUsers ends the incidents of users of whom nothing comes any more, or by objectives that no series has.
func (e *Endpoint) leaveUsers(now time.Time) {
	if !e.restored {
		e.forgetUsers(func(o series.Objective) bool {
			return !slices.ContainsFunc(e.series, func(s *Series) bool {
				return s.counts && s.objectives != nil && s.objectives.Share > 0 && s.objectives.Has(o)
			})
		}, now)
	}
	for _, c := range e.users {
		if c != nil && c.Raised && now.Sub(c.latest()) > silence {
			e.endUsers(c, c.Spell.Latest)
		}
	}
}

// forgetUsers forgets what users' requests show by objectives.
func (e *Endpoint) forgetUsers(by func(series.Objective) bool, now time.Time) {
	for i, c := range e.users {
		if c == nil || !by(series.Objective(i)) {
			continue
		}
		if c.Raised {
			e.endUsers(c, now)
		}
		e.users[i] = nil
	}
}

// usersIncidents returns the incidents of users that go on.
func (e *Endpoint) usersIncidents() (all []*Incident) {
	for _, c := range e.users {
		if c != nil && c.Raised {
			all = append(all, c.Spell)
		}
	}
	return all
}

// usersIncident returns the first incident of users that makes an endpoint of a state; nil is none.
func (e *Endpoint) usersIncident(state State) (first *Incident) {
	for _, i := range e.usersIncidents() {
		if i.State == state && (first == nil || i.Begin.Before(first.Begin)) {
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
	if c := e.users[kind.objective()]; c != nil && c.Raised {
		return c.Spell
	}
	return nil
}

// areUsersWell reports whether users' requests since the incident began are not as bad as it would take, the doubtful ones included.
func (e *Endpoint) areUsersWell(kind Kind) bool {
	c := e.users[kind.objective()]
	return c != nil && e.promise != nil && c.Since.isBelow(c.Since.Possible, boundsOf(kind.objective()).severe(1-e.promise.Share))
}

// users says what users had: "users: 340 of 1,200 requests over TTFT 500ms since 14:02 UTC: prompts are 4 times as long". Now is zero without the time.
func (i *Incident) users(now time.Time) string {
	text := fmt.Sprintf("users: %s of %s requests %s", grouped(i.Bad), grouped(i.Probes), i.Users)
	if !now.IsZero() {
		text += " since " + clock(i.Begin, now)
	}
	if i.Text != "" {
		text += ": " + i.Text
	}
	return text
}

// grouped returns a number with commas between thousands.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

package health

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/series"
)

// Incident is a time in which an endpoint was not up, or was asleep or muted.
type Incident struct {
	// State is degraded for an incident of failures, flapping where the endpoint was down at least 3 times in it, down
	// once it ended and every probe of it failed; or slow, stale, asleep or muted.
	State State `json:"state"`
	// Begin is when it began: with the start of the first bad probe. End is when it ended: with the start of the first
	// good probe of the clean run; zero while it goes on.
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end,omitzero"`
	// Probes counts the results, and Bad those that failed or, of a slow endpoint,
	// exceeded an objective. Once it has ended, the clean run is left out.
	Probes int `json:"probes,omitempty"`
	Bad    int `json:"bad,omitempty"`
	// Run counts the good results since the latest bad one, the first of which started at Good.
	Run  int       `json:"run,omitempty"`
	Good time.Time `json:"good,omitzero"`
	// Latest is when the latest bad probe started, or was due that the server asked to leave out. Row is when
	// the first of the failures in a row did.
	Latest time.Time `json:"latest,omitzero"`
	Row    time.Time `json:"row,omitzero"`
	// Spells counts how often the endpoint was down: the latest time since Down, until Back
	// if it is over. Longest is the longest of those that are over, Away how long the latest
	// of them was, from its first failure on, and Flaps whether two in a row were so long that it flaps.
	Spells  int           `json:"spells,omitempty"`
	Down    time.Time     `json:"down,omitzero"`
	Back    time.Time     `json:"back,omitzero"`
	Longest time.Duration `json:"longest,omitempty"`
	Away    time.Duration `json:"away,omitempty"`
	Flaps   bool          `json:"flaps,omitempty"`
	// Joined counts the incidents that were joined with this one, and Calm is the longest time without a failure between
	// two failures. After counts the good results since it has ended.
	Joined int           `json:"joined,omitempty"`
	Calm   time.Duration `json:"calm,omitempty"`
	After  int           `json:"after,omitempty"`
	// Missed are the objectives that were missed by more than chance explains, of availability 99 % where none is
	// configured. Promised reports whether an availability objective that is configured was.
	Missed   series.Set `json:"missed,omitempty"`
	Promised bool       `json:"promised,omitempty"`
	// Users is what was wrong with requests of users, as in "over TTFT 500ms", which Probes and Bad count then; "" is an incident of probes.
	Users string `json:"users,omitempty"`
	// Module is that of the first bad probe, and Text what was wrong with it; of a mute
	// its reason, of users' requests what changed. It may quote a server: bounded, without secrets.
	Module string `json:"module,omitempty"`
	Text   string `json:"text,omitempty"`
}

func (i *Incident) add(start time.Time, bad bool) {
	i.Probes++
	switch {
	case bad:
		if i.Run > 0 {
			i.Calm = max(i.Calm, start.Sub(i.Good))
		}
		i.Bad++
		i.Run, i.Latest = 0, start
		return
	case i.Run == 0:
		i.Good = start
	}
	i.Run++
}

// miss takes whether the failures are a verdict, and one by an objective that is configured.
func (i *Incident) miss(verdict, promised bool) {
	if verdict {
		i.Missed |= 1 << series.Availability
	}
	i.Promised = i.Promised || promised
}

// suspicion is an incident of bad probes that may be chance.
type suspicion struct {
	Incident *Incident `json:"incident,omitempty"` // nil is none
	Last     time.Time `json:"last,omitzero"`      // when the latest bad probe started
	certain  bool      // they are no chance
	promised bool      // and miss an availability objective that is configured
}

// add takes a bad probe. It begins with first where the one before was over a gap ago.
func (s *suspicion) add(start time.Time, gap time.Duration, first Incident) {
	if s.Incident == nil || start.Sub(s.Last) > gap {
		s.Incident = &first
	}
	s.Incident.add(start, true)
	s.Last = start
}

// pass takes a good probe.
func (s *suspicion) pass(start time.Time, gap time.Duration) {
	switch {
	case s.Incident == nil:
	case start.Sub(s.Last) > gap:
		s.Incident = nil
	default:
		s.Incident.add(start, false)
	}
}

// Bounds of a clean run.
const (
	minCleanRun = 3
	maxCleanRun = 40
	// cleanChance is how likely a clean run may be by chance, at the lower bound of the
	// share of bad probes before it: Wilson's, with so many standard deviations.
	cleanChance = 0.01
	cleanSigmas = 1.28
)

// cleanRun returns how many good results in a row end an incident of which so many results were bad: minCleanRun where
// all were, and else the smallest n with (1 - share)^n < cleanChance, within bounds.
func cleanRun(bad, of int) int {
	if bad >= of {
		return minCleanRun
	}
	share := lowerShare(float64(bad), float64(of))
	for n := minCleanRun; n < maxCleanRun; n++ {
		if math.Pow(1-share, float64(n)) < cleanChance {
			return n
		}
	}
	return maxCleanRun
}

// lowerShare is the lower bound of Wilson's score interval.
func lowerShare(bad, of float64) float64 {
	const z = cleanSigmas
	p := bad / of
	return (p + z*z/(2*of) - z*math.Sqrt(p*(1-p)/of+z*z/(4*of*of))) / (1 + z*z/of)
}

func (i *Incident) needed() int { return cleanRun(i.Bad, i.Probes-i.Run) }

// isOver reports whether the latest results are a clean run, and one that lasts: what came back again and again was well
// in between as well. Last is when the latest of them started.
func (i *Incident) isOver(last time.Time) bool {
	return i.Run >= i.needed() && (!i.recurs() || last.Sub(i.Good) >= 2*i.Calm)
}

func (i *Incident) finish(end time.Time) {
	i.End = end
	i.Probes -= i.Run
	i.After = i.Run
	i.Run, i.Good = 0, time.Time{}
	if i.State == Degraded && i.Spells > 0 && i.Bad == i.Probes {
		i.State = Down
	}
}

// String describes the incident in one line, without its times: "degraded for 37m:
// 236 of 472 probes failed (50 %), in 14 spells; first: connection refused".
func (i *Incident) String() string {
	text := string(i.State)
	if !i.End.IsZero() {
		text += " for " + rounded(i.End.Sub(i.Begin))
	}
	if i.Users != "" {
		return text + ": " + i.users(time.Time{})
	}
	switch i.State {
	case Down, Flapping, Degraded:
		text += ": " + i.failures()
		if i.Text != "" {
			text += "; first: " + i.Text
		}
		return text
	case Slow:
		return text + ": " + i.Text + "; " + i.overs()
	}
	if i.Text != "" {
		text += ": " + i.Text
	}
	return text
}

// failures counts what failed: "236 of 472 probes failed (50 %), in 14 spells".
func (i *Incident) failures() string {
	text := fmt.Sprintf("%d of %d probes failed (%s)", i.Bad, i.Probes, percent(i.Bad, i.Probes))
	if i.Spells > 1 {
		text += fmt.Sprintf(", in %d spells", i.Spells)
	}
	return text
}

// overs counts what was slow: "12 of 14 answers over an objective".
func (i *Incident) overs() string {
	return fmt.Sprintf("%d of %d answers over an objective", i.Bad, i.Probes)
}

// percent returns a share as text. Only none is 0 %, and only all are 100 %.
func percent(part, of int) string {
	switch {
	case part == 0:
		return "0 %"
	case part >= of:
		return "100 %"
	}
	return fmt.Sprintf("%.0f %%", min(99, max(1, 100*float64(part)/float64(of))))
}

// rounded returns a duration as people say it: "45s", "37m", "2h5m", "3d4h".
func rounded(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

const (
	// flappingSpells is how often an endpoint must be down in one incident to flap, and
	// how many incidents in a row are one: two may be chance.
	flappingSpells = 3
	// recursAfter and recursIntervals are how long after an incident another one counts
	// as its return: the longer of a time and a number of intervals.
	recursAfter     = 15 * time.Minute
	recursIntervals = 20
	// recursShare is the share of probes that must have failed in incidents that are one: below it is chance.
	recursShare = 0.05
	// outageAfter is for how long an endpoint that flaps must be down before it is so for good.
	outageAfter = 2 * time.Minute
)

func (i *Incident) recurs() bool {
	return i.Joined >= flappingSpells-1 || i.Spells >= flappingSpells || i.Flaps
}

// isFlapping reports whether the endpoint goes down and comes back again and again. Down
// is whether it is down now, and last when its latest result started.
func (i *Incident) isFlapping(down bool, last time.Time, within time.Duration) bool {
	switch {
	case i.Spells < flappingSpells && !i.Flaps:
		return false
	case down:
		return last.Sub(i.Down) <= max(outageAfter, 2*i.Longest)
	}
	return last.Sub(i.Back) <= 2*within
}

// setDown takes whether the endpoint is down; e.mu is held.
func (e *Endpoint) setDown(down bool) {
	switch i := e.Failing; {
	case down && !e.Down:
		i.Spells++
		i.Down = e.Last
		e.comeBack()
	case down:
		e.findFlapping(i.Latest.Sub(i.Row))
	case e.Down && i != nil:
		away := e.Last.Sub(i.Row)
		e.findFlapping(away)
		i.Back, i.Away = e.Last, away
		i.Longest = max(i.Longest, i.Back.Sub(i.Down))
	}
	e.Down = down
}

// findFlapping finds whether the endpoint, which is away for so long, was so the time before.
func (e *Endpoint) findFlapping(away time.Duration) {
	before := e.Failing
	if before.Flaps || away < flappingAfter {
		return
	}
	if n := lastFailing(e.Past); before.Spells < 2 && n >= 0 {
		before = &e.Past[n]
	}
	if before.Away >= flappingAfter && e.Failing.Row.Sub(before.Back) <= e.recursWithin() {
		e.Failing.Flaps = true
		e.comeBack()
	}
}

// comeBack makes one incident of those before and the one that goes on, and finds whether it flaps.
func (e *Endpoint) comeBack() {
	i := e.Failing
	before := i.State
	e.join()
	if (i.Flaps || i.Spells >= flappingSpells) && before != Flapping {
		i.State = Flapping
		e.logger().Warn("endpoint flapping", "since", i.Begin.UTC(), "probes", i.Probes, "failed", i.Bad, "spells", i.Spells)
	}
}

// recursWithin returns how long after an incident another one counts as its return.
func (e *Endpoint) recursWithin() time.Duration {
	var shortest time.Duration
	for _, s := range e.series {
		if s.counts && s.interval > 0 && (shortest == 0 || s.interval < shortest) {
			shortest = s.interval
		}
	}
	return max(recursAfter, recursIntervals*shortest)
}

// lastFailing returns the index of the latest incident of failed probes; -1 is none.
func lastFailing(past []Incident) int {
	for i := len(past) - 1; i >= 0; i-- {
		switch past[i].State {
		case Down, Flapping, Degraded:
			if past[i].Users == "" {
				return i
			}
		}
	}
	return -1
}

// join makes one incident of those before and the one that goes on, where failures came back soon and often.
func (e *Endpoint) join() {
	whole, past := *e.Failing, slices.Clone(e.Past)
	within := e.recursWithin()
	for {
		i := lastFailing(past)
		if i < 0 || whole.Begin.Sub(past[i].End) > within {
			break
		}
		longer := past[i].with(&whole)
		if float64(longer.Bad) < recursShare*float64(longer.Probes) {
			break
		}
		whole, past = longer, slices.Delete(past, i, i+1)
	}
	if whole.Joined > e.Failing.Joined && whole.recurs() {
		*e.Failing, e.Past = whole, past
	}
}

func (i Incident) with(next *Incident) Incident {
	i.Calm = max(i.Calm, next.Calm, next.Begin.Sub(i.End))
	i.Probes += i.After + next.Probes
	i.Bad += next.Bad
	i.Spells += next.Spells
	if next.Spells > 0 {
		i.Down, i.Back, i.Away = next.Down, next.Back, next.Away
	}
	i.Latest, i.Row, i.Flaps, i.Promised = next.Latest, next.Row, i.Flaps || next.Flaps, i.Promised || next.Promised
	i.Longest = max(i.Longest, next.Longest)
	i.Joined += next.Joined + 1
	i.Missed |= next.Missed
	i.State, i.End, i.After, i.Run, i.Good = Degraded, next.End, next.After, next.Run, next.Good
	if i.Spells >= flappingSpells || i.Flaps {
		i.State = Flapping
	}
	return i
}

// why says in one line why the endpoint is not up; last is the series that failed last, nil for none.
func (e *Endpoint) why(s *Status, last *Series, now time.Time) string {
	switch s.Unmuted {
	case Down, Flapping, Degraded, Slow:
		return strings.Join(e.whyBad(s, last, now), "; ")
	case Stale:
		return "no result since " + clock(e.latest(), now) + e.because()
	case Waiting:
		if last != nil { // it had no success yet
			return e.whyFailed(s, last)
		}
		return "no result yet" + e.because()
	case Asleep:
		return e.Asleep.Text
	}
	return ""
}

// whyBad is what probes show of an endpoint that fails or is slow, and what users' requests do.
func (e *Endpoint) whyBad(s *Status, last *Series, now time.Time) (why []string) {
	switch {
	case s.Unmuted == Slow && e.Slow != nil:
		why = append(why, e.whySlow(now))
	case e.Failing == nil:
	case e.Failing.recurs():
		why = append(why, e.whyFailed(s, last)+", again and again")
	default:
		why = append(why, e.whyFailing(s, last))
	}
	if s.Users != "" {
		why = append(why, s.Users)
	}
	if e.Failing == nil && e.Slow == nil && !e.Up.IsZero() {
		why = append(why, "probes are well")
	}
	return why
}

// whyFailing is as in "connection refused: 10.0.0.5:8000 (interactive)".
func (e *Endpoint) whyFailing(s *Status, last *Series) string {
	if last == nil {
		text := fmt.Sprintf("recovering: %d of %d successes in a row; latest failure: %s", e.Failing.Run, e.Failing.needed(), e.Cause)
		if i := e.Failing; i.Bad < i.Probes-i.Run {
			text = i.failures() + ", " + text
		}
		return text
	}
	return e.whyFailed(s, last)
}

// whyFailed is why the latest probe of those that fail did, or the latest that failed.
func (e *Endpoint) whyFailed(s *Status, last *Series) string {
	if last == nil {
		return e.Cause
	}
	cause := last.cause
	if cause == "" { // it failed before the incident that goes on
		cause = e.Cause
	}
	text := cause + " (" + last.title + ")"
	switch others := len(s.Failing) - 1; others {
	case 0:
		return text
	case maxNamed - 1:
		return text + fmt.Sprintf(" and at least %d more", others)
	default:
		return text + fmt.Sprintf(" and %d more", others)
	}
}

// whySlow is as in "interactive: TTFT 1.2s, objective 500ms; 12 of 14 answers over an objective since 06:15 UTC".
func (e *Endpoint) whySlow(now time.Time) string {
	counts := "; " + e.Slow.overs() + " since " + clock(e.Slow.Begin, now)
	for _, p := range e.series {
		if p.isValid() && !p.failed && p.pace.isSlow() {
			return p.title + ": " + p.pace.last.String() + counts
		}
	}
	if e.Slow.Run < minCleanRun {
		return e.Slow.Text + counts
	}
	return fmt.Sprintf("recovering: %d of %d answers in a row within the objectives; before: %s%s", e.Slow.Run, e.Slow.needed(), e.Slow.Text, counts)
}

// because says why runs were left out since the latest result; "" where none was.
func (e *Endpoint) because() string {
	if e.skipped == "" {
		return ""
	}
	return ": not probed: " + e.skipped
}

// latest returns when the latest result started, or when the wait for it began.
func (e *Endpoint) latest() time.Time {
	if e.Last.IsZero() {
		return e.unknown
	}
	return e.Last
}

// clock returns a time as people read it, with the date where it is not of the last 24 hours.
func clock(t, now time.Time) string {
	if now.Sub(t) < 24*time.Hour {
		return t.UTC().Format("15:04 UTC")
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

package health

import (
	"fmt"
	"math"
	"time"
)

// Incident is a time in which an endpoint was not up, or was muted.
type Incident struct {
	// State is degraded for an incident of failures, flapping where the endpoint was down
	// at least 3 times in it, down once it ended and every probe of it failed; or slow,
	// stale or muted.
	State State `json:"state"`
	// Begin is when it began: with the start of the first bad probe. End is when it
	// ended: with the start of the first good probe of the clean run; zero while it
	// goes on.
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end,omitzero"`
	// Probes counts the results, and Bad those that failed or, of a slow endpoint,
	// exceeded an objective. Once it has ended, the clean run is left out.
	Probes int `json:"probes,omitempty"`
	Bad    int `json:"bad,omitempty"`
	// Run counts the good results since the latest bad one, the first of which
	// started at Good.
	Run  int       `json:"run,omitempty"`
	Good time.Time `json:"good,omitzero"`
	// Spells counts how often the endpoint was down: the latest time since Down, until Back
	// if it is over. Longest is the longest of those that are over.
	Spells  int           `json:"spells,omitempty"`
	Down    time.Time     `json:"down,omitzero"`
	Back    time.Time     `json:"back,omitzero"`
	Longest time.Duration `json:"longest,omitempty"`
	// Joined counts the incidents that were joined with this one, and Calm is the longest
	// time without a failure between two failures. After counts the good results since it
	// has ended.
	Joined int           `json:"joined,omitempty"`
	Calm   time.Duration `json:"calm,omitempty"`
	After  int           `json:"after,omitempty"`
	// Module is that of the first bad probe, and Text what was wrong with it; of a mute
	// its reason. It may quote a server: bounded, without secrets.
	Module string `json:"module,omitempty"`
	Text   string `json:"text,omitempty"`
}

// add counts a result.
func (i *Incident) add(start time.Time, bad bool) {
	i.Probes++
	switch {
	case bad:
		if i.Run > 0 {
			i.Calm = max(i.Calm, start.Sub(i.Good))
		}
		i.Bad++
		i.Run = 0
		return
	case i.Run == 0:
		i.Good = start
	}
	i.Run++
}

// Bounds of a clean run.
const (
	minCleanRun = 3
	maxCleanRun = 20
	// cleanChance is how likely a clean run may be by chance, at the share of bad
	// probes before it.
	cleanChance = 0.05
)

// cleanRun returns how many good results in a row end an incident of which so many
// results were bad: the smallest n with (1 - bad/of)^n < cleanChance, within bounds.
func cleanRun(bad, of int) int {
	share := 1.0
	if of > 0 {
		share = min(1, float64(bad)/float64(of))
	}
	for n := minCleanRun; n < maxCleanRun; n++ {
		if math.Pow(1-share, float64(n)) < cleanChance {
			return n
		}
	}
	return maxCleanRun
}

// needed returns how many good results in a row end the incident.
func (i *Incident) needed() int { return cleanRun(i.Bad, i.Probes-i.Run) }

// isOver reports whether the latest results are a clean run, and one that lasts: what
// came back again and again was well in between as well. Last is when the latest of them
// started.
func (i *Incident) isOver(last time.Time) bool {
	return i.Run >= i.needed() && (!i.recurs() || last.Sub(i.Good) >= 2*i.Calm)
}

// finish ends the incident at a time.
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

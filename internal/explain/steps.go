package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// stepAge is how long before the state a step may be that is named: what was as bad
	// for longer is what the endpoint is like.
	stepAge = 24 * time.Hour
	// maxSteps is how many steps are named.
	maxSteps = 3
)

// worsened returns the steps to the worse that the state may be about, the latest first:
// of latencies that are late now, and of failures while probes fail.
func (f *facts) worsened() []Step {
	var all []Step
	for _, s := range f.Steps {
		since := f.Since.Sub(s.At)
		if s.After > s.Before && since <= stepAge && f.isAbout(s) {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b Step) int { return b.At.Compare(a.At) })
	return all
}

// isAbout reports whether what a step made worse is bad now.
func (f *facts) isAbout(s Step) bool {
	late := func(all []Speed) bool {
		return slices.ContainsFunc(all, func(l Speed) bool { return l.Module == s.Module })
	}
	switch s.Metric {
	case StepTTFT:
		return late(f.lateTTFT) || late(f.lateE2E)
	case StepTPOT:
		return late(f.lateTPOT) || late(f.lateE2E)
	}
	return len(f.failed) > 0
}

// stepLines returns the lines of when it got worse, and what else changed then.
func (f *facts) stepLines() []string {
	var texts []string
	for _, s := range f.worsened() {
		texts = append(texts, s.String())
	}
	return texts[:min(len(texts), maxSteps)]
}

// String returns the step in words.
func (s Step) String() string {
	text := fmt.Sprintf("%s of %s rose from %s to %s at %s", strings.ToUpper(string(s.Metric)), s.Module, seconds(s.Before), seconds(s.After), clock(s.At))
	if s.Metric == StepFailures {
		text = fmt.Sprintf("failures of %s rose from %s to %s of the probes at %s", s.Module, percent(s.Before), percent(s.After), clock(s.At))
	}
	if len(s.Beside) > 0 {
		text += "; at that time: " + strings.Join(s.Beside, ", ")
	}
	return text
}

// worsenedAt reports whether it got worse at an instant, as far as steps and changes are
// dated.
func (f *facts) worsenedAt(at time.Time) bool {
	return slices.ContainsFunc(f.worsened(), func(s Step) bool { return s.At.Sub(at).Abs() <= before })
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// incident is one thing that goes wrong.
type incident struct {
	name      string
	endpoints []string
	// common means that one page is to name the common cause.
	common     bool
	onset, end time.Time // end is zero while it lasts
}

// manyDown is the alert of a common cause, which is of no endpoint.
const manyDown = "ManyEndpointsDown"

// isOf reports whether a page is of the incident.
func (in *incident) isOf(n note) bool {
	return slices.ContainsFunc(n.firing, func(a alert) bool {
		return a.endpoint != "" && slices.Contains(in.endpoints, a.endpoint) || in.common && a.name == manyDown
	})
}

// pages returns the notifications that wake a person for the incident.
func (in *incident) pages(notes []note) []note {
	return slices.DeleteFunc(slices.Clone(notes), func(n note) bool { return !n.pages() || !in.isOf(n) })
}

// first returns how long it took until the first page; false without one.
func (in *incident) first(notes []note) (time.Duration, bool) {
	pages := in.pages(notes)
	if len(pages) == 0 {
		return 0, false
	}
	return pages[0].at.Sub(in.onset), true
}

// resolved returns how long after the end the last of its pages was resolved; false while
// one of them is not.
func (in *incident) resolved(notes []note) (after time.Duration, all bool) {
	open := map[string]bool{}
	for _, n := range notes {
		if !n.pages() {
			continue
		}
		if in.isOf(n) {
			open[n.group] = true
		} else if open[n.group] && len(n.firing) == 0 {
			open[n.group] = false
			after = n.at.Sub(in.end)
		}
	}
	for _, is := range open {
		if is {
			return after, false
		}
	}
	return after, len(open) > 0
}

func allResolved(incidents []*incident, notes []note) bool {
	return !slices.ContainsFunc(incidents, func(in *incident) bool {
		_, all := in.resolved(notes)
		return !all
	})
}

// judge returns in which ways the notifications are not as wanted.
func judge(incidents []*incident, notes []note) []string {
	var misses []string
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			misses = append(misses, fmt.Sprintf(format, args...))
		}
	}
	for _, in := range incidents {
		pages := in.pages(notes)
		add(len(pages) != 1, "%s: %d pages, want 1: %v", in.name, len(pages), pages)
		first, paged := in.first(notes)
		add(paged && first > pageWithin, "%s: the first page came after %.0f s, want at most %.0f s", in.name, first.Seconds(), pageWithin.Seconds())
		after, all := in.resolved(notes)
		add(paged && !all, "%s: not resolved", in.name)
		add(all && after > resolvedWithin, "%s: resolved %.0f s after its end, want at most %.0f s", in.name, after.Seconds(), resolvedWithin.Seconds())
		for _, n := range pages {
			add(n.at.After(in.end), "%s: paged %.0f s after its end: %s", in.name, n.at.Sub(in.end).Seconds(), n)
		}
	}
	for _, n := range notes {
		of := slices.ContainsFunc(incidents, func(in *incident) bool { return in.isOf(n) })
		add(n.pages() && len(n.firing) > 0 && !of, "a page of no incident: %s", n)
	}
	return misses
}

// table returns the figures in Markdown.
func table(incidents []*incident, notes []note) string {
	var b strings.Builder
	b.WriteString("| incident | pages | first, s | resolved, s after the end | pages after the end |\n| --- | --- | --- | --- | --- |\n")
	seconds := func(d time.Duration, known bool) string {
		if !known {
			return "-"
		}
		return fmt.Sprintf("%.0f", d.Seconds())
	}
	for _, in := range incidents {
		pages := in.pages(notes)
		after := len(slices.DeleteFunc(slices.Clone(pages), func(n note) bool { return !n.at.After(in.end) }))
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %d |\n", in.name, len(pages), seconds(in.first(notes)), seconds(in.resolved(notes)), after)
	}
	return b.String()
}

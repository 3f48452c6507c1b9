package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
)

// incident is one thing that goes wrong.
type incident struct {
	name    string
	servers []string // by their keys
	fault   fault
	// begins is when it begins after the calm, 0 is in its turn, and lasts for how long it
	// lasts, 0 is as long as most; turn is how long servers are bad and well in turns, 0 is no turns.
	begins, lasts, turn time.Duration

	// What is wanted: one page by this alert within a time, which says the cause, or none;
	// and a ticket. "" is any alert, whatever cause, and no particular ticket.
	// witness is who saw it: probes, users or both. unasked wants no probe from its second minute on.
	quiet         bool
	alert, ticket string
	cause         explain.Cause
	within        time.Duration
	witness       string
	unasked       bool

	onset, end time.Time // when it really began and ended
	asks       int       // of probes that should not be, once it is over
	truth, saw string    // what users met, and the witness at its end
}

// resolvedWithin is when the end of a page is due after that of the incident: the exporter
// waits for a run of successes that chance explains seldom, at most 40.
const resolvedWithin = 11 * time.Minute

// names are those of its endpoints.
func (in *incident) names() []string {
	all := make([]string, len(in.servers))
	for i, key := range in.servers {
		all[i], _, _ = strings.Cut(key, "@")
	}
	return all
}

func (in *incident) has(a alert) bool { return slices.Contains(in.names(), a.endpoint) }

// told returns the notifications to persons, or else the tickets, that have news of the incident.
func (in *incident) told(notes []note, pages bool) []note {
	return slices.DeleteFunc(slices.Clone(notes), func(n note) bool { return n.pages() != pages || !slices.ContainsFunc(n.news, in.has) })
}

func (in *incident) pages(notes []note) []note { return in.told(notes, true) }

// news are all alerts that paged for it.
func (in *incident) news(notes []note) (all []alert) {
	for _, n := range in.pages(notes) {
		for _, a := range n.news {
			if in.has(a) {
				all = append(all, a)
			}
		}
	}
	return all
}

// first returns how long it took until the first page; false without one.
func (in *incident) first(notes []note) (time.Duration, bool) {
	pages := in.pages(notes)
	if len(pages) == 0 {
		return 0, false
	}
	return pages[0].at.Sub(in.onset), true
}

// resolved returns how long after its end no page named it any more; false while one does.
func (in *incident) resolved(notes []note) (after time.Duration, all bool) {
	open := map[string]bool{}
	for _, n := range notes {
		switch group := n.receiver + n.group; {
		case !n.pages():
		case slices.ContainsFunc(n.firing, in.has):
			open[group] = true
		case open[group]:
			open[group] = false
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

// unnamed returns its endpoints that no page named.
func (in *incident) unnamed(notes []note) []string {
	return slices.DeleteFunc(in.names(), func(name string) bool {
		return slices.ContainsFunc(in.news(notes), func(a alert) bool { return a.endpoint == name })
	})
}

// alerts are those that paged for it, by name.
func (in *incident) alerts(notes []note) string { return namesOf(in.news(notes)) }

func namesOf(alerts []alert) string {
	var all []string
	for _, a := range alerts {
		all = append(all, a.name)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// tickets are the alerts of the tickets for it, by name.
func (in *incident) tickets(notes []note) string {
	var all []alert
	for _, n := range in.told(notes, false) {
		all = append(all, slices.DeleteFunc(slices.Clone(n.news), func(a alert) bool { return !in.has(a) })...)
	}
	return namesOf(all)
}

// title returns the title of the cause of which a page speaks; "" for none.
func (in *incident) title(notes []note) string {
	for _, a := range in.news(notes) {
		for _, r := range explain.Rules() {
			if strings.Contains(a.text, r.Title) {
				return r.Title
			}
		}
	}
	return ""
}

func titleOf(cause explain.Cause) string {
	i := slices.IndexFunc(explain.Rules(), func(r explain.Rule) bool { return r.Cause == cause })
	if i < 0 {
		return ""
	}
	return explain.Rules()[i].Title
}

// isOver reports whether nothing pages for it any more, and something did if it should.
func (in *incident) isOver(notes []note) bool {
	_, all := in.resolved(notes)
	return all || len(in.pages(notes)) == 0
}

// misses returns in which ways the notifications of an incident are not as wanted.
func (in *incident) misses(notes []note) []string {
	var all []string
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, in.name+": "+fmt.Sprintf(format, args...))
		}
	}
	pages := in.pages(notes)
	add(in.unasked && in.asks > 0, "%d probes, want none", in.asks)
	add(in.ticket != "" && !strings.Contains(in.tickets(notes), in.ticket), "no ticket %s: %q", in.ticket, in.tickets(notes))
	if in.quiet {
		add(len(pages) > 0, "%d pages, want none: %v", len(pages), pages)
		return all
	}
	add(len(pages) != 1, "%d pages, want 1: %v", len(pages), pages)
	add(len(pages) > 0 && len(in.unnamed(notes)) > 0, "not named: %v", in.unnamed(notes))
	first, paged := in.first(notes)
	add(paged && first > in.within, "the first page came after %.1f min, want at most %.1f", first.Minutes(), in.within.Minutes())
	add(paged && in.alert != "" && in.alerts(notes) != in.alert, "paged by %s, want %s", in.alerts(notes), in.alert)
	add(paged && in.cause != "" && in.title(notes) != titleOf(in.cause), "the page says %q, want %q", in.title(notes), titleOf(in.cause))
	add(paged && in.witness != "" && in.saw != in.witness, "witnessed by %q, want %q", in.saw, in.witness)
	after, over := in.resolved(notes)
	add(paged && !over, "not resolved")
	add(over && after < 0, "resolved %.1f min before its end", -after.Minutes())
	add(over && after > resolvedWithin, "resolved %.1f min after its end, want at most %.1f", after.Minutes(), resolvedWithin.Minutes())
	for _, n := range pages {
		add(n.at.After(in.end), "paged %.1f min after its end: %s", n.at.Sub(in.end).Minutes(), n)
	}
	return all
}

// judge returns in which ways the notifications are not as wanted.
func judge(incidents []*incident, notes []note) []string {
	var misses []string
	for _, in := range incidents {
		misses = append(misses, in.misses(notes)...)
	}
	for _, n := range notes {
		for _, a := range n.news {
			if n.pages() && !slices.ContainsFunc(incidents, func(in *incident) bool { return in.has(a) }) {
				misses = append(misses, "a page of no incident: "+a.String())
			}
		}
	}
	return misses
}

// table returns the figures in Markdown.
func table(incidents []*incident, notes []note) string {
	var b strings.Builder
	b.WriteString("| incident | first page, min | pages | alert | cause in the page | endpoints named | resolved, min after the end | tickets | witness | what users met |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	minutes := func(d time.Duration, known bool) string {
		if !known {
			return "-"
		}
		return fmt.Sprintf("%.1f", d.Minutes())
	}
	text := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	for _, in := range incidents {
		named := fmt.Sprintf("%d of %d", len(in.servers)-len(in.unnamed(notes)), len(in.servers))
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %s | %s | %s | %s | %s |\n", in.name, minutes(in.first(notes)), len(in.pages(notes)),
			text(in.alerts(notes)), text(in.title(notes)), named, minutes(in.resolved(notes)), text(in.tickets(notes)), text(in.saw), text(in.truth))
	}
	messages := 0
	for _, n := range notes {
		if n.pages() && len(n.news) > 0 {
			messages++
		}
	}
	fmt.Fprintf(&b, "\n%d messages with news for %d incidents of %d endpoints\n", messages, len(incidents), len(affected(incidents)))
	return b.String()
}

// affected are the endpoints of all incidents.
func affected(incidents []*incident) (all []string) {
	for _, in := range incidents {
		all = append(all, in.names()...)
	}
	return all
}

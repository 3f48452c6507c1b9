package main

import (
	"slices"
	"testing"
	"time"
)

// few is how many endpoints the tests simulate: a figure of the command rests
// on more.
const few = 8

func intervalRules(t *testing.T, interval time.Duration) []rule {
	t.Helper()
	rules, err := rulesFor(interval)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(rules, func(r rule) bool { return r.alert }) {
		t.Fatal("no paging alerts")
	}
	return rules
}

func TestOutagePagesWithinThreeMinutes(t *testing.T) {
	t.Parallel()
	for _, interval := range intervals {
		rules := intervalRules(t, interval)
		for _, in := range incidents()[:2] {
			first, err := timesToPage(t.Context(), rules, in, interval, few, 1)
			if err != nil {
				t.Fatal(err)
			}
			limit := 3 * time.Minute
			if interval == time.Minute && in.after.outage == outageHung {
				limit += 30 * time.Second // each failure takes half a minute to show
			}
			if len(first) < few || first[few-1].after > limit {
				t.Errorf("%s, probes every %s: paged after %v, want %d within %s", in.name, interval, first, few, limit)
			}
		}
	}
}

func TestDoublingPagesWithinTwentyMinutes(t *testing.T) {
	t.Parallel()
	const interval = 15 * time.Second
	rules := intervalRules(t, interval)
	for _, in := range incidents() {
		if in.name != "TTFT doubles, sigma 0.25" && in.name != "TTFT doubles, sigma 0.5" {
			continue
		}
		first, err := timesToPage(t.Context(), rules, in, interval, 5*few, 1)
		if err != nil {
			t.Fatal(err)
		}
		if median, ok := quantile(first, 5*few, 0.5); !ok || median > 20*time.Minute {
			t.Errorf("%s: median %s (%t), want at most 20 minutes", in.name, median, ok)
		}
	}
}

// TestQuietAtHalfTheBudget stays within the figure of one page in 90 days of
// independent noise, on as many days as fit into a test.
func TestQuietAtHalfTheBudget(t *testing.T) {
	t.Parallel()
	const interval = 15 * time.Second
	pages, err := falsePages(t.Context(), intervalRules(t, interval), noises()[0], interval, 15*day, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) > 0 {
		t.Errorf("pages in 30 days at half the error budget: %v", pages)
	}
}

func TestSameSeedSamePages(t *testing.T) {
	t.Parallel()
	const interval = time.Minute
	rules := intervalRules(t, interval)
	in := incidents()[2]
	var runs [2][]firstPage
	for i := range runs {
		first, err := timesToPage(t.Context(), rules, in, interval, 3, 5)
		if err != nil {
			t.Fatal(err)
		}
		runs[i] = first
	}
	if !slices.Equal(runs[0], runs[1]) {
		t.Errorf("first pages %v and %v with the same seed", runs[0], runs[1])
	}
}

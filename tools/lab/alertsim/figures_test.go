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
		for _, in := range incidents() {
			if in.after.outage == outageNone {
				continue
			}
			first, err := timesToPage(t.Context(), rules, in, interval, few, 1)
			if err != nil {
				t.Fatal(err)
			}
			limit := 3 * time.Minute
			if interval >= 30*time.Second && in.after.outage == outageHung {
				limit += time.Minute // each failure takes half a minute to show
			}
			if len(first) < few || first[few-1].after > limit {
				t.Errorf("%s, probes every %s: paged after %v, want %d within %s", in.name, interval, first, few, limit)
			}
		}
	}
}

// TestStoppedExporterPages checks that a stopped exporter is reported, and not that
// endpoints are down. The scrape that fails comes within 15 s, the alert waits
// for 3 minutes. Without probes, 3 intervals, two timeouts and a minute have to pass;
// scrapes and evaluations add up to 45 s to both.
func TestStoppedExporterPages(t *testing.T) {
	t.Parallel()
	for _, interval := range intervals {
		rules := intervalRules(t, interval)
		for _, in := range incidents() {
			var alert string
			var limit time.Duration
			switch in.stops {
			case stopNothing:
				continue
			case stopExporter:
				alert, limit = "InferenceExporterDown", 3*time.Minute
			case stopProbes:
				alert, limit = "InferenceProbeStale", 3*interval+2*probeTimeout+time.Minute
			}
			limit += 45 * time.Second
			first, err := timesToPage(t.Context(), rules, in, interval, few, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(first) < few || first[few-1].after > limit {
				t.Errorf("%s, probes every %s: paged after %v, want %d within %s", in.name, interval, first, few, limit)
			}
			for _, f := range first {
				if f.alert != alert {
					t.Errorf("%s, probes every %s: paged by %s, want %s", in.name, interval, f.alert, alert)
				}
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
	for _, n := range noises()[:2] {
		pages, err := falsePages(t.Context(), intervalRules(t, interval), n, interval, 15*day, 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(pages) > 0 {
			t.Errorf("%s: pages in 30 days: %v", n.name, pages)
		}
	}
}

func TestSameSeedSamePages(t *testing.T) {
	t.Parallel()
	const interval = time.Minute
	rules := intervalRules(t, interval)
	in := incidents()[4] // half of the answers break off
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

package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// maxStartLag is how late a probe may start.
const maxStartLag = time.Second

// skips returns how many of the latest runs were left out for a reason, if that was
// after the latest probe.
func (f *facts) skips(reason result.SkipReason) int {
	if n := len(f.Probes); n > 0 && !f.Exporter.SkippedAt[reason].After(f.Probes[n-1].Start) {
		return 0
	}
	return f.Exporter.Skipped[reason]
}

// heldBack reports whether the exporter itself is why there is no result.
func (f *facts) heldBack() bool {
	return (f.State == health.Stale || f.State == health.Waiting) &&
		f.skips(result.SkipBudget)+f.skips(result.SkipLimit)+f.skips(result.SkipModel)+f.skips(result.SkipResources)+f.skips(result.SkipContext)+f.skips(result.SkipSecret) > 0
}

func matchExporterBusy(f *facts) *match {
	if n := f.skips(result.SkipResources); n > 0 {
		return &match{
			share: 1, runbook: "InferenceExporterLacksResources", title: "the operating system refuses the exporter resources",
			evidence: []string{plural(n, "skipped run") + " for a lack of descriptors, memory or ports"},
		}
	}
	imprecise, late, all := 0, 0, len(f.Probes)
	for i := range f.Probes {
		if f.Probes[i].StartLag > maxStartLag {
			late++
		}
	}
	for i := range f.good {
		if f.good[i].Imprecise {
			imprecise++
		}
	}
	share := 1.0
	if len(f.failed) > 0 {
		share = minShare // it makes latencies wrong, and no probe fail
	}
	switch {
	case late >= minGood && 2*late >= all:
		return &match{
			share: share, runbook: "InferenceScheduleLag", title: "the exporter starts probes late",
			evidence: []string{fmt.Sprintf("%d of the latest %s started a second late or more", late, plural(all, "probe"))},
		}
	case imprecise >= minGood && 2*imprecise >= len(f.good):
		return &match{share: share, evidence: []string{fmt.Sprintf("%d of the latest %s are imprecise", imprecise, plural(len(f.good), "answer"))}}
	}
	return nil
}

func matchProbesThrottled(f *facts) *match {
	if f.State != health.Stale && f.State != health.Waiting {
		return nil
	}
	for _, r := range []struct {
		reason         result.SkipReason
		title, runbook string
	}{
		{result.SkipBudget, "the budget of the exporter is used up", "InferenceProbeBudgetExhausted"},
		{result.SkipLimit, "the limit of probes in flight is used up", "InferenceScheduleLag"},
		{result.SkipOverrun, "a probe has not ended, and holds up the next", "InferenceScheduleLag"},
		{result.SkipContext, "the module asks for more than the model's context", "InferenceProbeStale"},
	} {
		if n := f.skips(r.reason); n > 0 {
			return &match{
				share: 1, title: r.title, runbook: r.runbook,
				evidence: lines(fmt.Sprintf("%s: %s, the latest at %s", plural(n, "skipped run"), r.reason, clock(f.Exporter.SkippedAt[r.reason])), f.Exporter.Text),
			}
		}
	}
	return nil
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// unknown is the answer where no rule holds and the endpoint is not up.
func unknown(f *facts) Finding {
	r := Finding{
		Cause: Unknown, Title: "the evidence names no cause", Evidence: f.known(), Against: []string{},
		Do:      []string{"Probe by hand: `inference_exporter probe URL` shows where the time goes.", "Look at the servers' logs, and at what changed when it began."},
		Runbook: "InferenceProbeFailing",
	}
	switch {
	case f.mixed:
		r.Title = "probes fail in several ways in turns"
	case f.State == health.Waiting:
		r.Title = "no probe has ended yet"
	case f.State == health.Stale:
		r.Runbook = "InferenceProbeStale"
	case len(f.failed) == 0:
		r.Runbook = "InferenceLatencyRegression"
	}
	return r
}

// known returns the lines of what is known: how the failed probes ended, most of them
// first, since when, and what is late.
func (f *facts) known() []string {
	all := f.tally()
	type ended struct {
		n    int
		line []string
	}
	var byOutcome []ended
	for _, o := range result.Outcomes() {
		if m := f.failures(outcomes(o)); m != nil {
			n, _ := f.share(outcomes(o))
			byOutcome = append(byOutcome, ended{n, m.evidence})
		}
	}
	slices.SortStableFunc(byOutcome, func(a, b ended) int { return b.n - a.n })
	for _, e := range byOutcome {
		all = append(all, e.line...)
	}
	all = append(all, f.stepLines()...)
	all = append(all, f.lateness()...)
	if f.Servers == nil && len(f.lateTTFT) > 0 {
		all = append(all, "no server's page is known, which would separate queue, prefill and gateway")
	}
	return append(all, f.queue()...)
}

// healthy is the answer where nothing is wrong.
func healthy(f *facts) Finding {
	evidence := []string{}
	if n := len(f.Probes); n > 0 {
		evidence = append(evidence, fmt.Sprintf("%d of the latest %s succeeded", len(f.good), plural(n, "probe")))
	}
	for i := range f.Speeds {
		evidence = append(evidence, lines(f.Speeds[i].TTFT.line("TTFT of "+f.Speeds[i].Module, seconds))...)
	}
	r := Finding{Cause: Healthy, Title: "nothing is wrong", Evidence: evidence[:min(len(evidence), 4)], Against: []string{}, Do: []string{}}
	for i := range slices.Backward(f.Probes) {
		if p := &f.Probes[i]; p.Failed() {
			r.Title = "nothing is wrong now"
			r.Evidence = append(r.Evidence, "the latest that failed, at "+clock(p.Start)+": "+f.quote(p))
			break
		}
	}
	return r
}

package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// maxStartLag is how late a probe may start.
const maxStartLag = time.Second

// skips returns how many of the latest runs were left out for one of these reasons, if that was after the latest probe.
func (f *facts) skips(reasons ...result.SkipReason) (n int) {
	for _, reason := range reasons {
		if last := len(f.Probes) - 1; last < 0 || f.Exporter.SkippedAt[reason].After(f.Probes[last].Start) {
			n += f.Exporter.Skipped[reason]
		}
	}
	return n
}

// noResult reports whether probes bring no result, which the exporter itself may be the reason of.
func (f *facts) noResult() bool { return f.State == health.Stale || f.State == health.Waiting }

// heldBack reports whether the exporter itself is why there is no result.
func (f *facts) heldBack() bool {
	own := f.skips(result.SkipBudget, result.SkipLimit, result.SkipModel, result.SkipResources, result.SkipContext, result.SkipSecret)
	return f.noResult() && own > 0
}

func matchExporterBusy(f *facts) *match {
	if n := f.skips(result.SkipResources); n > 0 {
		return &match{
			share: 1, runbook: "InferenceExporterLacksResources", title: "the operating system refuses the exporter resources",
			evidence: []string{plural(n, "skipped run") + " for a lack of descriptors, memory or ports"},
		}
	}
	unread := func(p *Probe) bool { return stalledBy(p, result.SideExporter) }
	if m := f.failures(unread); m != nil {
		m.title = "the exporter does not read answers in time"
		return m.addStall(f, result.SideExporter)
	}
	m := &match{share: 1}
	if len(f.failed) > 0 {
		m.share = minShare // it makes latencies wrong, and no probe fail
	}
	if late := atLeastHalf(f.Probes, func(p *Probe) bool { return p.StartLag > maxStartLag }); late > 0 {
		m.runbook, m.title = "InferenceMeasurementSuspect", "the exporter starts probes late"
		return m.add(fmt.Sprintf("%d of the latest %s started a second late or more", late, plural(len(f.Probes), "probe")))
	}
	if n := atLeastHalf(f.good, unread); n > 0 {
		return m.add(fmt.Sprintf("%d of the latest %s stalled until the exporter read them", n, plural(len(f.good), "answer"))).addStall(f, result.SideExporter)
	}
	if imprecise := atLeastHalf(f.good, func(p *Probe) bool { return p.Imprecise }); imprecise > 0 {
		return m.add(fmt.Sprintf("%d of the latest %s are imprecise", imprecise, plural(len(f.good), "answer")))
	}
	return nil
}

// atLeastHalf returns how many probes are so, if they are half of them or more, and enough for a rule; else 0.
func atLeastHalf(all []*Probe, so func(*Probe) bool) int {
	n := stats.Count(all, so)
	if n < minGood || 2*n < len(all) {
		return 0
	}
	return n
}

func matchProbesThrottled(f *facts) *match {
	if !f.noResult() {
		return nil
	}
	for _, r := range []struct {
		reason         result.SkipReason
		title, runbook string
	}{
		{result.SkipBudget, "the budget of the exporter is used up", "InferenceProbeBudgetExhausted"},
		{result.SkipLimit, "the limit of probes in flight is used up", "InferenceExporterLacksResources"},
		{result.SkipOverrun, "a probe has not ended, and holds up the next", "InferenceProbeStale"},
		{result.SkipContext, "the module asks for more than the model's context", "InferenceProbeStale"},
	} {
		if n := f.skips(r.reason); n > 0 {
			m := &match{share: 1, title: r.title, runbook: r.runbook}
			at := clock(f.Exporter.SkippedAt[r.reason])
			return m.add(fmt.Sprintf("%s: %s, the latest at %s", plural(n, "skipped run"), r.reason, at), f.Exporter.Text)
		}
	}
	return nil
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// date is clock for what may have begun on another day.
func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// unknown is the answer where no rule holds and the endpoint is not up.
func unknown(f *facts) Finding {
	title, do := Unknown.Say()
	r := Finding{
		Cause: Unknown, Title: title, Evidence: f.known(), Against: []string{},
		Do:      []string{do, "Look at the servers' logs, and at what changed when it began."},
		Runbook: "InferenceEndpointFailing",
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

// known returns the lines of what is known: how the failed probes ended, most of them first, since when, and what is
// late.
func (f *facts) known() []string {
	count := func(o result.Outcome) int {
		n, _ := f.share(outcomes(o))
		return n
	}
	byCount := slices.Clone(result.Outcomes())
	slices.SortStableFunc(byCount, func(a, b result.Outcome) int { return count(b) - count(a) })
	m := new(match).add(f.tally())
	for _, o := range byCount {
		if of := f.failures(outcomes(o)); of != nil {
			m.add(of.evidence...)
		}
	}
	m.add(f.stepLines()...).add(f.lateness()...)
	if f.Servers == nil && len(f.lateTTFT) > 0 {
		m.add("no server's page is known, which would separate queue, prefill and gateway")
	}
	return m.add(f.queue()...).evidence
}

// healthy is the answer where nothing is wrong.
func healthy(f *facts) Finding {
	title, _ := Healthy.Say()
	r := Finding{Cause: Healthy, Title: title, Evidence: []string{}, Against: []string{}, Do: []string{}}
	if n := len(f.Probes); n > 0 {
		r.Evidence = append(r.Evidence, fmt.Sprintf("%d of the latest %s succeeded", len(f.good), plural(n, "probe")))
	}
	var speeds []string
	for _, s := range f.Speeds {
		speeds = append(speeds, s.TTFT.line("TTFT of "+s.Module, seconds))
	}
	r.Evidence = append(r.Evidence, first(lines(speeds...))...)
	for _, p := range slices.Backward(f.Probes) {
		if p.Failed() {
			r.Title = "nothing is wrong now"
			r.Evidence = append(r.Evidence, "the latest that failed, at "+clock(p.Start)+": "+f.quote(p))
			break
		}
	}
	return r
}

package explain

import (
	"fmt"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

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
	if late := atLeastHalf(f.Probes, func(p *Probe) bool { return p.StartLag > maxStartLag }, "probe", "started a second late or more"); late != "" {
		m.runbook, m.title = "InferenceMeasurementSuspect", "the exporter starts probes late"
		return m.add(late)
	}
	if stalled := atLeastHalf(f.good, unread, "answer", "stalled until the exporter read them"); stalled != "" {
		return m.add(stalled).addStall(f, result.SideExporter)
	}
	if imprecise := atLeastHalf(f.good, func(p *Probe) bool { return p.Imprecise }, "answer", "are imprecise"); imprecise != "" {
		return m.add(imprecise)
	}
	return nil
}

// atLeastHalf returns the line of how many probes are so, if they are half of them or more, and enough for a rule; else "".
func atLeastHalf(all []*Probe, so func(*Probe) bool, thing, words string) string {
	n := stats.Count(all, so)
	if n < minGood || 2*n < len(all) {
		return ""
	}
	return fmt.Sprintf("%d of the latest %s %s", n, plural(len(all), thing), words)
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

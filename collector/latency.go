package collector

import (
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Classic bounds in seconds. Every limit of MLPerf Inference on TTFT and TPOT
// and the common objectives of the field are among them, so that ratios against
// those are exact.
var (
	ttftBounds = []float64{
		0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.45, 0.5, 0.75,
		1, 1.5, 2, 2.5, 3, 4.5, 6, 10, 20, 40, 80, 160,
	}
	gapBounds = []float64{
		0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075,
		0.1, 0.15, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4,
	}
	tpotBounds = []float64{
		0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05,
		0.075, 0.08, 0.1, 0.15, 0.175, 0.2, 0.3, 0.5, 1, 2.5,
	}
	durationBounds = []float64{
		0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 45, 60, 120, 240, 480, 960,
	}
)

// setLast sets the gauges of the latest success.
func (v *values) setLast(t *result.Timing) {
	if t.TTFT >= 0 {
		v.lastTTFT.set(t.TTFT.Seconds())
	}
	if t.TPOT >= 0 {
		v.lastTPOT.set(t.TPOT.Seconds())
	}
	if t.TPOT > 0 {
		v.lastSpeed.set(1 / t.TPOT.Seconds())
	}
}

// observeLatency observes the durations of a success that were measured.
func (v *values) observeLatency(r *result.Result) {
	t := &r.Timing
	observe := func(h *histogram, d time.Duration) {
		if d >= 0 {
			h.observeTraced(d.Seconds(), r.TraceID, r.Start)
		}
	}
	observe(&v.ttft, t.TTFT)
	observe(&v.ttfo, t.TTFO)
	observe(&v.tpot, t.TPOT)
	observe(&v.maxGap, t.MaxGap)
	observe(&v.duration, t.Duration)
	if !r.MoreEvents { // of which some are no tokens
		v.observeGaps(r.Events)
	}
	v.events = v.events.with(r.EventTokens())
	for i, d := range t.Phases {
		if d >= 0 {
			v.phases[i].observe(d.Seconds())
		}
	}
	for i, d := range [numServerPhases]time.Duration{
		serverQueue: r.Server.Queue, serverPrefill: r.Server.Prefill, serverDecode: r.Server.Decode,
	} {
		if d < 0 {
			continue
		}
		if v.server == nil {
			v.server = new([numServerPhases]summary)
		}
		v.server[i].observe(d.Seconds())
	}
}

// serverTimes returns the times of the server by phase; none before a reply had any.
func (v *values) serverTimes() []summary {
	if v.server == nil {
		return nil
	}
	return v.server[:]
}

// observeGaps observes the time between neighbouring events whose instants are
// both measured.
func (v *values) observeGaps(events []result.Event) {
	for i := 1; i < len(events); i++ {
		before, after := &events[i-1], &events[i]
		if gap := after.At - before.At; gap >= 0 && !before.Merged && !after.Merged {
			v.interChunk.observe(gap.Seconds())
		}
	}
}

// durationFamilies are the distributions of whole probes and their parts.
func durationFamilies() []*probeFamily {
	return []*probeFamily{
		probeHistogram("probe_duration_seconds", durationBounds,
			"Duration of successful probes: from issuing the request, connection set-up included, to the end of the reply.",
			func(v *values) *histogram { return &v.duration }),
		probeSummary("probe_phase_seconds", phaseNames(),
			"Consecutive phases of successful probes. first_byte lasts from the end of sending the request to the first byte of the reply, first_token until the first token, decode until the last token, close until the end.",
			func(v *values) []summary { return v.phases[:] }, isPhaseOfAll),
		probeSummary("probe_server_time_seconds", []string{"queue", "prefill", "decode"},
			"Times of the server for successful probes, as reported in the replies. Absent until a reply reports them.",
			(*values).serverTimes, func(int) bool { return false }),
	}
}

// latencyFamilies are the distributions of tokens that come one by one.
func latencyFamilies() []*probeFamily {
	return []*probeFamily{
		probeHistogram("probe_ttft_seconds", ttftBounds,
			"Time to first token of successful probes: from the start of the request on a ready connection to the first event with generated content of any kind, including reasoning. With count_waiting also the waits of inference_probe_waiting_total.",
			func(v *values) *histogram { return &v.ttft }),
		ttfoFamily(),
		probeHistogram("probe_tpot_seconds", tpotBounds,
			"Time per output token of successful probes: from the first to the last token event, divided by the tokens after the first event. If reasoning tokens are not streamed, or only as a summary, from the first to the last event of the answer, divided by the tokens of the answer. One observation per probe for which these are known.",
			func(v *values) *histogram { return &v.tpot }),
		probeHistogram("probe_inter_chunk_seconds", gapBounds,
			"Time between consecutive token events of successful probes, not divided by tokens. Gaps next to a merged event are excluded.",
			func(v *values) *histogram { return &v.interChunk }),
		probeHistogram("probe_max_gap_seconds", gapBounds,
			"Longest time between two consecutive token events of a successful probe. One observation per probe.",
			func(v *values) *histogram { return &v.maxGap }),
	}
}

// ttfoFamily is absent from a compact page as long as it has what the TTFT has.
func ttfoFamily() *probeFamily {
	return newProbeFamily(Family{
		Name: "probe_ttfo_seconds", Type: Histogram, Unit: "seconds",
		Help: "Time to first output of successful probes: like TTFT, but to the first event that is visible to a user, excluding reasoning.",
	}, ttftBounds, func(e encoder, _ *family, v *values) {
		if !e.compact() || !v.ttfo.equals(&v.ttft) {
			e.histogram(&v.ttfo)
		}
	})
}

// lastFamilies are the gauges of the latest success.
func lastFamilies() []*probeFamily {
	return []*probeFamily{
		probeGauge("probe_last_ttft_seconds", "seconds",
			"Time to first token of the latest probe. Absent after a failure and if unknown.",
			func(v *values) gauge { return v.lastTTFT }),
		probeGauge("probe_last_tpot_seconds", "seconds",
			"Time per output token of the latest probe, as inference_probe_tpot_seconds. Absent after a failure and if unknown.",
			func(v *values) gauge { return v.lastTPOT }),
		probeGauge("probe_last_output_tokens_per_second", "tokens_per_second",
			"Output tokens per second of the latest probe, as a single user sees it: 1 / TPOT. Absent if inference_probe_last_tpot_seconds is.",
			func(v *values) gauge { return v.lastSpeed }),
	}
}

// untimedFamilies count probes of all kinds whose latencies count nowhere.
func untimedFamilies() []*probeFamily {
	return []*probeFamily{
		flawCounter("probe_imprecise_total",
			"Probes whose latencies are unreliable: the exporter was too busy, its clock was unstable, or the reply was compressed. They are excluded from all latencies, from the window, from steps and estimates, and from all objectives except availability.",
			func(v *values) uint64 { return v.imprecise }),
		flawCounter("probe_disturbed_total",
			"Probes during which the exporter sent a burst of requests to the same endpoint. They are excluded from all latencies, from the window, from steps and estimates, and from all objectives.",
			func(v *values) uint64 { return v.disturbed }),
		flawCounter("probe_confirmations_total",
			"Probes that the exporter added soon after a failure to confirm it. They are excluded from all latencies, from the window, from steps and estimates, and from all objectives, because they come after failures only.",
			func(v *values) uint64 { return v.confirmations }),
	}
}

// isPhaseOfAll reports whether probes of all kinds go through a phase.
func isPhaseOfAll(i int) bool {
	return result.Phase(i) != result.PhaseFirstToken && result.Phase(i) != result.PhaseDecode
}

// phaseNames returns the names of the phases in order.
func phaseNames() []string {
	names := make([]string, 0, result.NumPhases)
	for p := range result.NumPhases {
		names = append(names, p.String())
	}
	return names
}

package collector

import "github.com/inference-exporter/inference_exporter/internal/result"

// judgeStream counts a result against the objective of fluidity.
func (o *slo) judgeStream(r *result.Result, timed bool) {
	if r.Outcome == result.TimeoutStall {
		o.count(sloFluidity, true)
		return
	}
	if r.Outcome != result.Success || !timed || r.TooShortForTPOT() {
		return
	}
	if d, ok := r.Deadlines(o.thresholds[sloTTFT], o.thresholds[sloTPOT]); ok {
		o.count(sloFluidity, d.Fluidity() < o.fluidity)
		o.deadlines = o.deadlines.Plus(d)
	}
}

// eventTokens counts the tokens after the first event of each stream, and the events that
// brought them.
type eventTokens struct{ tokens, events uint64 }

// The tokens for each event of a stream from which it is taken that the server sends several
// at once: 6/5. Ends of texts and characters of several tokens leave fewer events than
// tokens on any server.
const manyTokens, perEvents = 6, 5

// with returns the counts with those of one more stream. nil, before an event had several
// tokens, remains nil at a stream without such.
func (c *eventTokens) with(tokens, events int) *eventTokens {
	if c == nil {
		if events == 0 || perEvents*tokens < manyTokens*events {
			return nil
		}
		c = new(eventTokens)
	}
	c.tokens += uint64(tokens)
	c.events += uint64(events)
	return c
}

// smoothnessFamilies are how steadily tokens come, and how many at once.
func smoothnessFamilies() []*probeFamily {
	deadlines := func(name, help string, get func(d *result.Deadlines) int) *probeFamily {
		return probeCounter(name, "", help, func(v *values) (uint64, bool) {
			if v.slo == nil || !v.slo.has(sloFluidity, v.kind) {
				return 0, false
			}
			return uint64(get(&v.slo.deadlines)), true
		})
	}
	events := func(name, help string, get func(c *eventTokens) uint64) *probeFamily {
		return probeCounter(name, "", help, func(v *values) (uint64, bool) {
			if v.events == nil {
				return 0, false
			}
			return get(v.events), true
		})
	}
	return []*probeFamily{
		probeGauge("slo_fluidity_ratio", "ratio",
			"Minimum fluidity of a good stream, as configured: the ratio of its token deadlines that are met. Absent without such an objective.",
			func(v *values) gauge {
				if v.slo == nil || !v.slo.has(sloFluidity, v.kind) {
					return gauge{}
				}
				return gauge{v.slo.fluidity, true}
			}),
		deadlines("probe_token_deadlines_total",
			"Token deadlines of the streams that count for the fluidity objective: the first token is due after the TTFT objective, each further one a TPOT objective after the deadline of the one before, or after a late token. A late token has one more deadline for each TPOT objective that it is overdue.",
			func(d *result.Deadlines) int { return d.Total }),
		deadlines("probe_token_deadlines_missed_total",
			"Those of inference_probe_token_deadlines_total that were missed.",
			func(d *result.Deadlines) int { return d.Missed }),
		events("probe_streamed_tokens_total",
			"Output tokens, by the server's count, after the first event of successful probes, without streams that were buffered or that have many merged events. Divided by inference_probe_streamed_events_total, it is the tokens per event: with speculative decoding the tokens that one step of the model brings. Absent until a stream has 1.2 tokens per event.",
			func(c *eventTokens) uint64 { return c.tokens }),
		events("probe_streamed_events_total",
			"Token events in which those of inference_probe_streamed_tokens_total came.",
			func(c *eventTokens) uint64 { return c.events }),
		waitingFamily(),
	}
}

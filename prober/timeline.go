package prober

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// lateRead is the read lag past which the prober, and not the server, may be what put several events into one read, and
// by how much a first token may have come earlier than its stamp before its time is no longer vouched for.
const lateRead = time.Millisecond

// promptLag is the read lag of a prober that was waiting, and promptPart the part
// of a gap between tokens that it is at most: one late read in so many has no more.
const (
	promptLag  = 200 * time.Microsecond
	promptPart = 25
)

// instant is one moment by both clocks, counted from t1.
type instant struct {
	kernel  time.Duration // Absent without a stamp
	process time.Duration
}

func (i instant) on(c result.Clock) time.Duration {
	if c == result.ClockKernel {
		return i.kernel
	}
	return i.process
}

// lag is the time from the kernel's stamp to the return of the read.
func (i instant) lag() time.Duration {
	if i.kernel < 0 {
		return result.Absent
	}
	return i.process - i.kernel
}

// rawEvent is a token-bearing event as it came.
type rawEvent struct {
	instant
	tokens    int  // by the running count; 0 is not known
	size      int  // of its text in Unicode characters
	read      int  // which read of the body completed it
	more      bool // that read brought more after it
	visible   bool
	reasoning bool // and nothing that is visible
	summary   bool // of reasoning, whose own tokens are not streamed
	tool      bool
	arguments bool // of a call of a function
}

// timeline holds the raw stamps of one probe, counted from t1, Absent for what did not come. The names t0 to tE
// are those of the metric definitions.
type timeline struct {
	dnsDone      time.Duration // end of the name look-up
	tlsStart     time.Duration // TCP connected, handshake begins
	requestStart time.Duration // t2: the request begins to leave on the ready connection
	requestEnd   time.Duration // t3: its last part is handed to the kernel
	firstByte    instant       // t4
	events       []rawEvent    // c1 = t6 ... tL
	firstAfter   time.Duration // the earliest that events[0] can have come
	end          instant       // tE: end marker, or the end of the body
	whole        bool          // the reply is one piece, without tokens that come one by one
	stepped      bool          // the wall clock was set during the probe
}

func newTimeline() timeline {
	none := instant{result.Absent, result.Absent}
	return timeline{
		dnsDone: result.Absent, tlsStart: result.Absent, requestStart: result.Absent, requestEnd: result.Absent,
		firstByte: none, end: none, firstAfter: result.Absent,
	}
}

// clock is the kernel's when it stamped everything that was received, as
// stamps of two clocks must not be subtracted from each other.
func (t *timeline) clock() result.Clock {
	if t.stepped || t.firstByte.kernel < 0 || t.end.process >= 0 && t.end.kernel < 0 ||
		slices.ContainsFunc(t.events, func(e rawEvent) bool { return e.kernel < 0 }) {
		return result.ClockProcess
	}
	return result.ClockKernel
}

// measure sets what the stamps of a probe come to, given its tokens.
func (t *timeline) measure(r *result.Result) {
	c, n, d := t.clock(), r.Tokens, &r.Timing
	r.Clock, r.MoreEvents = c, t.moreEvents(c, n)
	doubtful := r.MoreEvents && t.doubtful(c, n)
	*d = result.Timing{
		TTFT: result.Absent, TTFO: result.Absent, TPOT: result.Absent, PerCharacter: result.Absent, MaxGap: result.Absent,
		Duration: t.end.on(c), Phases: t.phases(c, !doubtful),
	}
	if i := slices.IndexFunc(t.events, func(e rawEvent) bool { return e.visible }); i >= 0 {
		d.TTFO = max(0, t.events[i].on(c)-t.requestStart)
	}
	if len(t.events) == 0 || doubtful {
		return
	}
	d.TTFT = max(0, t.events[0].on(c)-t.requestStart)
	answer, ok := t.decoded(n)
	if r.Buffered = t.burst(c, t.all(len(t.events))) || ok && t.burst(c, answer); r.Buffered {
		return
	}
	if ok {
		answer.FirstTokens = t.firstTokens(answer)
		r.Decoded = answer
		d.TPOT = t.per(c, answer, answer.Tokens-answer.FirstTokens)
		d.PerCharacter = t.per(c, answer, sizeOf(t.events[answer.First+1:answer.Last+1])) // which two tokenizers have in common
	}
	for i := 1; i < len(t.events); i++ {
		d.MaxGap = max(d.MaxGap, t.events[i].on(c)-t.events[i-1].on(c))
	}
}

// phases cuts the probe at its moments. The write ends with the first byte at the latest, also where a server
// answers early or the prober sees its end late. A moment before its predecessor makes a phase of 0, so that
// the phases add up to the duration. Without tokens nothing is between first byte and end.
func (t *timeline) phases(c result.Clock, tokens bool) (p [result.NumPhases]time.Duration) {
	for i := range p {
		p[i] = result.Absent
	}
	at := time.Duration(0)
	cut := func(ph result.Phase, until time.Duration) {
		if until < 0 {
			return
		}
		if end := t.end.on(c); end >= 0 {
			until = min(until, end)
		}
		until = max(until, at)
		p[ph] = until - at
		at = until
	}
	cut(result.PhaseDNS, t.dnsDone)
	if t.tlsStart >= 0 {
		cut(result.PhaseConnect, t.tlsStart)
		cut(result.PhaseTLS, t.requestStart)
	} else {
		cut(result.PhaseConnect, t.requestStart)
	}
	sent, first := t.requestEnd, t.firstByte.on(c)
	if first >= 0 {
		sent = min(sent, first)
	}
	cut(result.PhaseWrite, sent)
	cut(result.PhaseFirstByte, first)
	n := len(t.events)
	if n > 0 && tokens {
		cut(result.PhaseFirstToken, t.events[0].on(c))
		cut(result.PhaseDecode, t.events[n-1].on(c))
	}
	if n > 0 || t.whole {
		cut(result.PhaseClose, t.end.on(c))
	}
	return p
}

// merged reports whether the arrival of an event is only an upper bound: a later token shares its read, or
// anything else does and the prober was late, or does not know.
func (t *timeline) merged(i int) bool {
	e := &t.events[i]
	if !e.more {
		return false
	}
	if i+1 < len(t.events) && t.events[i+1].read == e.read {
		return true
	}
	lag := e.lag()
	return lag < 0 || lag > lateRead
}

func (t *timeline) published(c result.Clock) []result.Event {
	out := make([]result.Event, len(t.events))
	for i := range t.events {
		e := &t.events[i]
		out[i] = result.Event{At: e.on(c), ReadLag: result.Absent, Tokens: e.tokens, Merged: t.merged(i), Reasoning: e.reasoning}
		if c == result.ClockKernel {
			out[i].ReadLag = e.lag()
		}
	}
	return out
}

// imprecise reports whether the prober cannot vouch for the latencies: the clock was set, or the first token
// was read together with later ones and the prober was late. Where nothing is known of how that read came, the
// lags of all reads decide; else the first token is as old as its stamp if it came with the rest in one packet
// or within a moment, and the lag of that read decides otherwise. As that is the lag of the last packet, of any
// age up to a gap for a late prober, hardly any shows that the server wrote them together. At most 1 ms, or 5 %
// of the time to the first token, is precise enough.
func (t *timeline) imprecise(c result.Clock) bool {
	if t.stepped {
		return true
	}
	if len(t.events) == 0 || !t.events[0].more {
		return false
	}
	first := t.events[0].on(c)
	enough := max(lateRead, (first-t.requestStart)/20)
	if t.firstAfter < 0 {
		return t.merged(0) && slices.ContainsFunc(t.events, func(e rawEvent) bool { return e.lag() > lateRead })
	}
	if first-max(t.firstAfter, t.requestStart) <= enough {
		return false
	}
	together := 0 // with the first one, after it
	for i := 1; i < len(t.events) && t.events[i].read == t.events[0].read; i++ {
		together++
	}
	// How long a gap is, by what was not read together with it.
	gap := time.Duration(0)
	if rest := len(t.events) - 1 - together; rest > 0 {
		gap = t.took(c, t.all(0)) / time.Duration(rest)
	}
	lag := t.events[0].lag()
	if gap <= promptLag { // the rest came as fast, or was read as late
		return lag > promptLag || together >= bufferedMinTokens
	}
	older := time.Duration(together) * gap // than the last of them, where they did not come together
	return older > enough && (lag > lateRead || together >= bufferedMinTokens || older > enough*3/2 && lag > gap/promptPart)
}

// stepTolerance is how far the wall clock may drift from the monotonic one
// during a probe. The kernel slews both alike: only a step moves them apart.
const stepTolerance = time.Millisecond

// isStep reports whether the wall clock was set during a probe that took these times by the wall and the
// monotonic clock. Kernel stamps, which are wall times, have no place on its timeline then.
func isStep(wall, monotonic time.Duration) bool {
	return (wall - monotonic).Abs() > stepTolerance
}

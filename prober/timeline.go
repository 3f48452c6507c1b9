package prober

import "time"

// bufferedPerToken is the pace past which several tokens cannot have come
// from a model one after the other (10,000 tokens/s in one stream): something
// between held them back and sent them in one burst.
const bufferedPerToken = 100 * time.Microsecond

// bufferedMinTokens is how many tokens a burst needs to be called buffered; a
// shorter answer may well fit one step of speculative decoding.
const bufferedMinTokens = 8

// lateRead is the read lag past which the prober, and not the server, may be
// what put several events into one read.
const lateRead = time.Millisecond

// instant is one moment by both clocks, counted from t1.
type instant struct {
	kernel  time.Duration // Absent without a stamp
	process time.Duration
}

// on returns the moment by the given clock.
func (i instant) on(c Clock) time.Duration {
	if c == ClockKernel {
		return i.kernel
	}
	return i.process
}

// lag is the time from the kernel's stamp to the return of the read.
func (i instant) lag() time.Duration {
	if i.kernel < 0 {
		return Absent
	}
	return i.process - i.kernel
}

// rawEvent is a token-bearing event as it came.
type rawEvent struct {
	instant
	tokens    int
	read      int  // which read of the body completed it
	more      bool // that read brought more after it
	visible   bool
	reasoning bool
}

// timeline holds the raw stamps of one probe, all counted from t1. A moment
// that did not come is Absent. The names t0 to tE are those of the metric
// definitions.
type timeline struct {
	dnsDone      time.Duration // end of the name look-up
	tlsStart     time.Duration // TCP connected, handshake begins
	requestStart time.Duration // t2: the request begins to leave on the ready connection
	requestEnd   time.Duration // t3: its last part is handed to the kernel
	firstByte    instant       // t4
	events       []rawEvent    // c1 = t6 ... tL
	end          instant       // tE: end marker, or the end of the body
	whole        bool          // the reply is one piece, without tokens that come one by one
	stepped      bool          // the wall clock was set during the probe
}

func newTimeline() timeline {
	none := instant{Absent, Absent}
	return timeline{
		dnsDone: Absent, tlsStart: Absent, requestStart: Absent, requestEnd: Absent,
		firstByte: none, end: none,
	}
}

// clock is the kernel's when it stamped everything that was received, as
// stamps of two clocks must not be subtracted from each other.
func (t *timeline) clock() Clock {
	if t.stepped || t.firstByte.kernel < 0 || (t.end.process >= 0 && t.end.kernel < 0) {
		return ClockProcess
	}
	for i := range t.events {
		if t.events[i].kernel < 0 {
			return ClockProcess
		}
	}
	return ClockKernel
}

// result turns the stamps into durations. tokens is the number of output
// tokens, or api.Unknown.
func (t *timeline) result(tokens int) (c Clock, d Timing, buffered bool) {
	c = t.clock()
	d = Timing{
		TTFT: Absent, TTFO: Absent, TPOT: Absent, MaxGap: Absent,
		Duration: t.end.on(c), Phases: t.phases(c),
	}
	if len(t.events) == 0 {
		return c, d, false
	}
	first, last := t.events[0].on(c), t.events[len(t.events)-1].on(c)
	d.TTFT = max(0, first-t.requestStart)
	for i := range t.events {
		if t.events[i].visible {
			d.TTFO = max(0, t.events[i].on(c)-t.requestStart)
			break
		}
	}
	if tokens >= bufferedMinTokens && last-first < time.Duration(tokens)*bufferedPerToken {
		return c, d, true
	}
	// The first event's own tokens came with it and took no decode time.
	if rest := tokens - max(1, t.events[0].tokens); rest > 0 && last > first {
		d.TPOT = (last - first) / time.Duration(rest)
	}
	for i := 1; i < len(t.events); i++ {
		d.MaxGap = max(d.MaxGap, t.events[i].on(c)-t.events[i-1].on(c))
	}
	return c, d, false
}

// phases cuts the probe at its moments. A moment before its predecessor (a
// server that answers before the request is out) makes a phase of 0, so that
// the phases of a finished probe add up to its duration.
func (t *timeline) phases(c Clock) (p [NumPhases]time.Duration) {
	for i := range p {
		p[i] = Absent
	}
	at := time.Duration(0)
	cut := func(ph Phase, until time.Duration) {
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
	cut(PhaseDNS, t.dnsDone)
	if t.tlsStart >= 0 {
		cut(PhaseConnect, t.tlsStart)
		cut(PhaseTLS, t.requestStart)
	} else {
		cut(PhaseConnect, t.requestStart)
	}
	cut(PhaseWrite, t.requestEnd)
	cut(PhaseFirstByte, t.firstByte.on(c))
	if n := len(t.events); n > 0 {
		cut(PhaseFirstToken, t.events[0].on(c))
		cut(PhaseDecode, t.events[n-1].on(c))
		cut(PhaseClose, t.end.on(c))
	} else if t.whole {
		cut(PhaseClose, t.end.on(c))
	}
	return p
}

// merged tells whether the arrival of an event is only an upper bound: a later
// token shares its read, or anything else does that may have come later, as
// the prober was late, or cannot tell whether it was.
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

// published returns the events by the chosen clock.
func (t *timeline) published(c Clock) []Event {
	out := make([]Event, len(t.events))
	for i := range t.events {
		e := &t.events[i]
		out[i] = Event{At: e.on(c), ReadLag: Absent, Tokens: e.tokens, Merged: t.merged(i), Reasoning: e.reasoning}
		if c == ClockKernel {
			out[i].ReadLag = e.lag()
		}
	}
	return out
}

// imprecise tells whether the prober cannot vouch for the latencies: the
// clock was set, or the first token was read together with later ones while
// the prober was late.
func (t *timeline) imprecise() bool {
	if t.stepped {
		return true
	}
	if len(t.events) == 0 || !t.merged(0) {
		return false
	}
	for i := range t.events {
		if t.events[i].lag() > lateRead {
			return true
		}
	}
	return false
}

// stepTolerance is how far the wall clock may drift from the monotonic one
// during a probe. The kernel slews both alike: only a step moves them apart.
const stepTolerance = time.Millisecond

// isStep tells whether the wall clock was set during a probe that took the
// given times by the wall and the monotonic clock. Kernel stamps are wall
// times and cannot be placed on the probe's timeline then.
func isStep(wall, monotonic time.Duration) bool {
	return (wall - monotonic).Abs() > stepTolerance
}

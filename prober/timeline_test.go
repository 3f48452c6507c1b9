package prober

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const ms = time.Millisecond

// both is a moment that both clocks agree on.
func both(d time.Duration) instant { return instant{d, d} }

// token is a visible event of unknown token count.
func token(at time.Duration) rawEvent { return rawEvent{instant: both(at), visible: true} }

// sample is a probe over a new TLS connection: DNS 2 ms, connect 5 ms, TLS
// 13 ms, write 1 ms, first byte 79 ms, first token 20 ms, then a token every
// 30 ms until 210 ms, end at 212 ms.
func sample() timeline {
	t := newTimeline()
	t.dnsDone, t.tlsStart, t.requestStart, t.requestEnd = 2*ms, 7*ms, 20*ms, 21*ms
	t.firstByte = both(100 * ms)
	t.events = []rawEvent{token(120 * ms), token(150 * ms), token(180 * ms), token(210 * ms)}
	t.end = both(212 * ms)
	return t
}

// count is the server's count of output tokens, with none of reasoning.
func count(output int) result.Tokens {
	return result.Tokens{Output: output, Reasoning: api.Unknown, Source: result.TokensFromUsage}
}

// result returns what the line comes to with some tokens.
func (t *timeline) result(n result.Tokens) *result.Result {
	r := &result.Result{Tokens: n}
	t.measure(r)
	return r
}

func TestTimeline(t *testing.T) {
	f := func(name string, line timeline, tokens int, want result.Timing, wantClock result.Clock, wantBuffered bool) {
		t.Helper()
		got := line.result(count(tokens))
		if diff := cmp.Diff(want, got.Timing); diff != "" {
			t.Errorf("%s: timing (-want +got):\n%s", name, diff)
		}
		if got.Clock != wantClock || got.Buffered != wantBuffered || got.MoreEvents {
			t.Errorf("%s: %+v; want clock %s, buffered %t", name, got, wantClock, wantBuffered)
		}
	}
	phases := func(p ...time.Duration) (out [result.NumPhases]time.Duration) {
		copy(out[:], p)
		return out
	}
	full := phases(2*ms, 5*ms, 13*ms, 1*ms, 79*ms, 20*ms, 90*ms, 2*ms)

	f("plain", sample(), 4, result.Timing{
		TTFT: 100 * ms, TTFO: 100 * ms, TPOT: 30 * ms, PerCharacter: result.Absent, MaxGap: 30 * ms, Duration: 212 * ms, Phases: full,
	}, result.ClockKernel, false)

	f("tokens unknown", sample(), api.Unknown, result.Timing{
		TTFT: 100 * ms, TTFO: 100 * ms, TPOT: result.Absent, PerCharacter: result.Absent, MaxGap: 30 * ms, Duration: 212 * ms, Phases: full,
	}, result.ClockKernel, false)

	line := sample() // 5 characters in the first event, 9 in the others
	for i, size := range []int{5, 4, 0, 5} {
		line.events[i].size = size
	}
	f("characters", line, 4, result.Timing{
		TTFT: 100 * ms, TTFO: 100 * ms, TPOT: 30 * ms, PerCharacter: 10 * ms, MaxGap: 30 * ms, Duration: 212 * ms, Phases: full,
	}, result.ClockKernel, false)

	line = sample() // 3 tokens in the first event, 2 in each of the others
	line.events[0].tokens = 3
	f("tokens of the first event take no decode time", line, 9, result.Timing{
		TTFT: 100 * ms, TTFO: 100 * ms, TPOT: 15 * ms, PerCharacter: result.Absent, MaxGap: 30 * ms, Duration: 212 * ms, Phases: full,
	}, result.ClockKernel, false)

	line = sample()
	line.events = line.events[:1]
	line.end = both(121 * ms)
	f("one token", line, 1, result.Timing{
		TTFT: 100 * ms, TTFO: 100 * ms, TPOT: result.Absent, PerCharacter: result.Absent, MaxGap: result.Absent, Duration: 121 * ms,
		Phases: phases(2*ms, 5*ms, 13*ms, 1*ms, 79*ms, 20*ms, 0, 1*ms),
	}, result.ClockKernel, false)

	line = sample()
	for i := range 2 {
		line.events[i].visible, line.events[i].reasoning = false, true
	}
	f("reasoning first", line, 4, result.Timing{
		TTFT: 100 * ms, TTFO: 160 * ms, TPOT: 30 * ms, PerCharacter: result.Absent, MaxGap: 30 * ms, Duration: 212 * ms, Phases: full,
	}, result.ClockKernel, false)

	line = sample()
	for i := range line.events { // 8 tokens within 30 µs
		line.events[i].instant = both(120*ms + time.Duration(i)*10*time.Microsecond)
	}
	line.end = both(121 * ms)
	f("buffered", line, 8, result.Timing{
		TTFT: 100 * ms, TTFO: 100 * ms, TPOT: result.Absent, PerCharacter: result.Absent, MaxGap: result.Absent, Duration: 121 * ms,
		Phases: phases(2*ms, 5*ms, 13*ms, 1*ms, 79*ms, 20*ms, 30*time.Microsecond, 970*time.Microsecond),
	}, result.ClockKernel, true)

	line = sample() // answered while the request is sent, or the end of the write is seen late
	line.requestEnd = 170 * ms
	f("early answer", line, 4, result.Timing{
		TTFT: 100 * ms, TTFO: 100 * ms, TPOT: 30 * ms, PerCharacter: result.Absent, MaxGap: 30 * ms, Duration: 212 * ms,
		Phases: phases(2*ms, 5*ms, 13*ms, 80*ms, 0, 20*ms, 90*ms, 2*ms),
	}, result.ClockKernel, false)

	line = sample() // a kept connection: no set-up
	line.dnsDone, line.tlsStart, line.requestStart = result.Absent, result.Absent, 1*ms
	f("reused", line, 4, result.Timing{
		TTFT: 119 * ms, TTFO: 119 * ms, TPOT: 30 * ms, PerCharacter: result.Absent, MaxGap: 30 * ms, Duration: 212 * ms,
		Phases: phases(result.Absent, 1*ms, result.Absent, 20*ms, 79*ms, 20*ms, 90*ms, 2*ms),
	}, result.ClockKernel, false)

	line = sample() // one event without a kernel stamp: all by the process clock
	line.events[1].kernel = result.Absent
	line.events[1].process = 155 * ms
	f("missing stamp", line, 4, result.Timing{
		TTFT: 100 * ms, TTFO: 100 * ms, TPOT: 30 * ms, PerCharacter: result.Absent, MaxGap: 35 * ms, Duration: 212 * ms, Phases: full,
	}, result.ClockProcess, false)

	line = sample()
	line.stepped = true
	for i := range line.events {
		line.events[i].kernel += time.Second
	}
	f("clock set during the probe", line, 4, result.Timing{
		TTFT: 100 * ms, TTFO: 100 * ms, TPOT: 30 * ms, PerCharacter: result.Absent, MaxGap: 30 * ms, Duration: 212 * ms, Phases: full,
	}, result.ClockProcess, false)

	line = sample() // an embedding: nothing between first byte and end
	line.events, line.whole = nil, true
	f("whole", line, api.Unknown, result.Timing{
		TTFT: result.Absent, TTFO: result.Absent, TPOT: result.Absent, PerCharacter: result.Absent, MaxGap: result.Absent, Duration: 212 * ms,
		Phases: phases(2*ms, 5*ms, 13*ms, 1*ms, 79*ms, result.Absent, result.Absent, 112*ms),
	}, result.ClockKernel, false)

	line = newTimeline() // failed at the connection
	line.dnsDone, line.end = 2*ms, both(9*ms)
	f("no connection", line, api.Unknown, result.Timing{
		TTFT: result.Absent, TTFO: result.Absent, TPOT: result.Absent, PerCharacter: result.Absent, MaxGap: result.Absent, Duration: 9 * ms,
		Phases: phases(2*ms, result.Absent, result.Absent, result.Absent, result.Absent, result.Absent, result.Absent, result.Absent),
	}, result.ClockProcess, false)
}

// The phases of a finished probe add up to its duration, whatever the order
// in which the moments came: a server may answer before the request is out.
func TestPhasesAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	moment := func() time.Duration { return time.Duration(rng.Int64N(int64(time.Second))) }
	for range 2000 {
		line := newTimeline()
		line.requestStart = moment()
		line.requestEnd = moment()
		line.firstByte = both(moment())
		if rng.IntN(2) == 0 {
			line.dnsDone = moment()
		}
		if rng.IntN(2) == 0 {
			line.tlsStart = moment()
		}
		at := moment()
		for range 1 + rng.IntN(5) {
			line.events = append(line.events, token(at))
			at += moment()
		}
		line.end = both(at + 3*time.Second)
		d := line.result(count(len(line.events))).Timing
		var sum time.Duration
		for _, p := range d.Phases {
			sum += max(p, 0)
		}
		if sum != d.Duration {
			t.Fatalf("phases %v add up to %v, duration %v (%+v)", d.Phases, sum, d.Duration, line)
		}
	}
}

func TestPublishedEvents(t *testing.T) {
	line := sample()
	line.events[1].instant = instant{kernel: 150 * ms, process: 153 * ms}
	line.events[1].more = true // and the prober was late
	got := line.published(result.ClockKernel)[1]
	want := result.Event{At: 150 * ms, ReadLag: 3 * ms, Merged: true}
	if got != want {
		t.Errorf("kernel: got %+v, want %+v", got, want)
	}
	got = line.published(result.ClockProcess)[1]
	want = result.Event{At: 153 * ms, ReadLag: result.Absent, Merged: true}
	if got != want {
		t.Errorf("process: got %+v, want %+v", got, want)
	}
}

func TestImprecise(t *testing.T) {
	f := func(name string, want bool, change func(*timeline)) {
		t.Helper()
		line := sample()
		change(&line)
		if got := line.imprecise(line.clock()); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
	f("plain", false, func(*timeline) {})
	f("clock set", true, func(l *timeline) { l.stepped = true })
	together := func(l *timeline, i int) { // events i and i+1 in one read
		l.events[i].more, l.events[i].read, l.events[i+1].read = true, 7, 7
	}
	f("first token merged, prober on time", false, func(l *timeline) { together(l, 0) })
	f("first token merged, prober late", true, func(l *timeline) {
		together(l, 0)
		l.events[2].process += 2 * ms
	})
	f("later token merged, prober late", false, func(l *timeline) {
		together(l, 1)
		l.events[2].process += 2 * ms
	})
	// The lag is that of the last packet: the first may have waited much longer.
	apart := func(l *timeline) { // events 0 and 1 in one read, the rest alone
		for i := range l.events {
			l.events[i].read = i
		}
		together(l, 0)
		l.events[1].instant = l.events[0].instant // the rest 45 ms apart
	}
	late := func(l *timeline, by time.Duration) { l.events[0].process += by }
	f("two of 45 ms apart in one read", true, func(l *timeline) {
		apart(l)
		l.firstAfter = 20 * ms
		late(l, 1100*time.Microsecond)
	})
	f("written together, as they were read at once", false, func(l *timeline) {
		apart(l)
		l.firstAfter = 20 * ms
		late(l, 900*time.Microsecond)
	})
	fast := func(l *timeline) { // the rest 2 ms apart
		apart(l)
		l.firstAfter, l.events[2].instant, l.events[3].instant = 20*ms, both(122*ms), both(124*ms)
		l.requestStart = 105 * ms // 5 % of the time since is less than 1 ms
	}
	f("two of 2 ms apart in one read", true, func(l *timeline) {
		fast(l)
		late(l, 90*time.Microsecond)
	})
	f("written together, 2 ms before the next", false, func(l *timeline) {
		fast(l)
		late(l, 70*time.Microsecond)
	})
	f("nothing was there 0.9 ms before", false, func(l *timeline) {
		apart(l)
		l.firstAfter = 120*ms - 900*time.Microsecond
		late(l, 1100*time.Microsecond)
	})
	f("nothing was there 1.1 ms before", true, func(l *timeline) {
		apart(l)
		l.requestStart = 100 * ms
		l.firstAfter = 120*ms - 1100*time.Microsecond
		late(l, 1100*time.Microsecond)
	})
	f("nothing was there 4.9 ms before, 5 % of 100 ms", false, func(l *timeline) {
		apart(l)
		l.firstAfter = 120*ms - 4900*time.Microsecond
		late(l, 3*ms)
	})
	f("two of 4 ms apart in one read, 4 % of 100 ms", false, func(l *timeline) {
		fast(l)
		l.requestStart, l.events[2].instant, l.events[3].instant = 20*ms, both(124*ms), both(128*ms)
		late(l, 3*ms)
	})
	f("the request left 0.1 ms before", false, func(l *timeline) { // at 20 ms
		apart(l)
		l.firstAfter, l.events[0].instant = 3*ms, both(20*ms+100*time.Microsecond)
	})
	f("in one packet, prober late", false, func(l *timeline) {
		apart(l)
		l.firstAfter = 120 * ms
		l.events[0].process += 5 * ms
	})
	atOnce := func(l *timeline) {
		apart(l)
		for i := range l.events {
			l.events[i].instant = both(120*ms + time.Duration(i)*50*time.Microsecond)
		}
		l.firstAfter = 20 * ms
	}
	f("a server that writes all at once", false, atOnce)
	f("a server that writes all at once, or a late prober", true, func(l *timeline) {
		atOnce(l)
		late(l, 300*time.Microsecond)
	})
	f("more than a prober that waits finds", true, func(l *timeline) {
		l.firstAfter = 20 * ms
		l.events = slices.Repeat([]rawEvent{{instant: both(120 * ms), read: 7, more: true}}, 9)
	})
	f("followed by something else, prober on time", false, func(l *timeline) {
		l.events[0].more, l.firstAfter = true, 20*ms
		for i := range l.events {
			l.events[i].read = i
		}
	})
}

func TestMerged(t *testing.T) {
	f := func(name string, want bool, change func(*timeline)) {
		t.Helper()
		line := sample()
		for i := range line.events {
			line.events[i].read = i
		}
		change(&line)
		if got := line.merged(1); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
	f("alone in its read", false, func(*timeline) {})
	f("with the next token", true, func(l *timeline) { l.events[1].more, l.events[2].read = true, 1 })
	f("with something else, read at once", false, func(l *timeline) { l.events[1].more = true })
	f("with something else, read late", true, func(l *timeline) { l.events[1].more = true; l.events[1].process += 2 * ms })
	f("with something else, no stamp", true, func(l *timeline) { l.events[1].more = true; l.events[1].kernel = result.Absent })
}

func TestIsStep(t *testing.T) {
	f := func(wall, monotonic time.Duration, want bool) {
		t.Helper()
		if got := isStep(wall, monotonic); got != want {
			t.Errorf("wall %s, monotonic %s: got %t, want %t", wall, monotonic, got, want)
		}
	}
	f(time.Minute, time.Minute, false)
	f(time.Minute+900*time.Microsecond, time.Minute, false)
	f(time.Minute+2*ms, time.Minute, true)
	f(time.Minute-2*ms, time.Minute, true)
	f(-time.Hour, time.Minute, true)
}

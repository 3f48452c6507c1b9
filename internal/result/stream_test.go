package result

import (
	"math"
	"testing"
	"time"
)

const ms = time.Millisecond

// streamOf returns a stream of a request that was sent at 10 ms, whose events came at the
// given milliseconds after that.
func streamOf(tokens int, at ...time.Duration) *Result {
	r := &Result{Tokens: Tokens{Output: tokens, Source: TokensFromUsage}, Decoded: TokenSpan{0, len(at) - 1, tokens, 1}}
	for _, after := range at {
		r.Events = append(r.Events, Event{At: 10*ms + after*ms, ReadLag: 50 * time.Microsecond})
	}
	r.Timing.TTFT = at[0] * ms
	return r
}

// carrying sets how many tokens each event carries by a running count.
func (r *Result) carrying(tokens ...int) *Result {
	for i, n := range tokens {
		r.Events[i].Tokens = n
	}
	return r
}

// every returns n instants, of which the first is at, with a step between them.
func every(n int, at, step time.Duration) (all []time.Duration) {
	for i := range n {
		all = append(all, at+time.Duration(i)*step)
	}
	return all
}

// TestDeadlines has timelines with a deadline of 100 ms for the first token and of 20 ms
// for each further one, computed by hand as Etalon (arXiv 2407.07000) defines them.
func TestDeadlines(t *testing.T) {
	f := func(name string, r *Result, total, missed int, fluidity float64) {
		t.Helper()
		got, ok := r.Deadlines(100*ms, 20*ms)
		if want := (Deadlines{total, missed}); !ok || got != want {
			t.Errorf("%s: %+v, %t; want %+v", name, got, ok, want)
		}
		if got := got.Fluidity(); math.Abs(got-fluidity) > 1e-9 {
			t.Errorf("%s: fluidity %v, want %v", name, got, fluidity)
		}
	}
	// Due at 100, 120, 140 and 160.
	f("each in time", streamOf(4, 80, 119, 140, 160), 4, 0, 1)
	f("one token", streamOf(1, 100), 1, 0, 1)
	// Those of 100, 120 and 140 pass without a token; then 170, 190, which is missed by 10, and
	// 220 from the late one.
	f("late first token", streamOf(4, 150, 165, 200, 215), 6, 4, 1.0/3)
	// 20 overdue is one period: its own deadline, and that of the token after it.
	f("a whole period late", streamOf(2, 120, 140), 3, 2, 1.0/3)
	f("less than a period late", streamOf(2, 119, 139), 2, 1, 0.5)

	// A token every 10 ms, of 20, and a pause of 100 ms: after the third one the deadline of
	// 160 is missed by 60; after the twelfth 340 is met at 310 by what was early.
	early := append([]time.Duration{100, 110, 120}, every(17, 220, 10)...)
	f("an early pause", streamOf(20, early...), 23, 4, 19.0/23)
	f("a late pause", streamOf(20, append(every(12, 100, 10), every(8, 310, 10)...)...), 20, 0, 1)

	// Of three tokens at 150 the first was due at 120: 30 late misses two. The next are due
	// from 210 on, 30 before 240.
	f("tokens together", streamOf(6, 100, 150, 240).carrying(1, 3, 2), 8, 4, 0.5)
	// Two in each event after the first: due at 120, missed at 140 by a period, then at 180.
	f("tokens spread evenly", streamOf(7, 100, 140, 180, 220), 8, 2, 0.75)
	// Three at 100; then two in each, due at 160, 200 and 240, and four from the late one.
	split := streamOf(9, 100, 150, 195, 250)
	split.Decoded.FirstTokens = 3
	f("several in the first event", split, 9, 1, 8.0/9)
	f("a count of some events", streamOf(7, 100, 140, 180, 220).carrying(0, 9), 8, 2, 0.75)
	merged := streamOf(4, 80, 121, 140, 160)
	merged.Events[1].Merged = true // by the server, or on the way
	f("late and merged", merged, 4, 1, 0.75)
	merged = streamOf(4, 80, 119, 140, 160)
	merged.Events[1].Merged, merged.Events[1].ReadLag = true, time.Second
	f("in time even as it was read", merged, 4, 0, 1)
	f("events without a token", streamOf(2, 100, 110, 115, 125), 2, 1, 0.5)
}

// What is not known has no fluidity.
func TestNoDeadlines(t *testing.T) {
	f := func(name string, change func(r *Result)) {
		t.Helper()
		r := streamOf(4, 80, 119, 140, 160)
		change(r)
		if got, ok := r.Deadlines(100*ms, 20*ms); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
	f("buffered", func(r *Result) { r.Decoded = TokenSpan{} })
	f("reasoning without events", func(r *Result) { r.Decoded = TokenSpan{1, 3, 3, 1} })
	f("first token not known", func(r *Result) { r.Timing.TTFT = Absent })
	late := func(lag time.Duration) func(r *Result) {
		return func(r *Result) { r.Events[1].At, r.Events[1].Merged, r.Events[1].ReadLag = 131*ms, true, lag }
	}
	f("late to read", late(5*ms))
	f("merged, by the clock of the process", late(Absent))
	f("events dropped", func(r *Result) { r.Events = nil })
	f("an absurd count", func(r *Result) { r.Decoded.Tokens = 1e18 })
}

// A hostile count makes no overflow and takes no time.
func TestDeadlinesOfManyTokens(t *testing.T) {
	r := streamOf(mostTokens, every(5, 100, 10)...)
	if got, ok := r.Deadlines(time.Minute, time.Hour); !ok || got.Total != mostTokens || got.Missed != 0 {
		t.Errorf("%+v, %t", got, ok)
	}
}

func TestEventTokens(t *testing.T) {
	f := func(name string, wantTokens, wantEvents int, change func(r *Result)) {
		t.Helper()
		r := streamOf(14, every(6, 100, 30)...)
		change(r)
		if tokens, events := r.EventTokens(); tokens != wantTokens || events != wantEvents {
			t.Errorf("%s: %d in %d events, want %d in %d", name, tokens, events, wantTokens, wantEvents)
		}
	}
	f("13 after the first", 13, 5, func(*Result) {})
	f("three in the first", 11, 5, func(r *Result) { r.Decoded.FirstTokens = 3 })
	f("the answer alone", 9, 3, func(r *Result) { r.Decoded = TokenSpan{2, 5, 10, 1} })
	f("buffered", 0, 0, func(r *Result) { r.Decoded = TokenSpan{} })
	f("one event", 0, 0, func(r *Result) { r.Events, r.Decoded.Last = r.Events[:1], 0 })
	f("events dropped", 0, 0, func(r *Result) { r.Events = nil })
	f("counted by events", 0, 0, func(r *Result) { r.Tokens.Source = TokensFromEvents })
	f("more events than tokens", 0, 0, func(r *Result) { r.MoreEvents = true })
	f("merged", 0, 0, func(r *Result) { r.Events[1].Merged = true })
	f("one of eleven merged", 20, 10, func(r *Result) {
		*r = *streamOf(21, every(11, 100, 30)...)
		r.Events[4].Merged = true
	})
	f("an absurd count", 0, 0, func(r *Result) { r.Decoded.Tokens = 1e18 })
}

package series

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// answer is a success of many tokens, each in an event of its own.
func answer(start time.Time, tokens int) *result.Result {
	r := probe(start, result.Success, 200*ms, 20*ms)
	r.Model, r.RetryAfter, r.RateLimit.Requests, r.RateLimit.Tokens = "llama", result.Absent, -1, -1
	for i := range tokens {
		r.Events = append(r.Events, result.Event{At: time.Duration(200+20*i) * ms, Tokens: 1, ReadLag: time.Microsecond})
	}
	return r
}

// answerWith is a success with a text.
func answerWith(text string) *result.Result {
	r := answer(epoch(), 0)
	r.Answer.Text = text
	return r
}

// poolOf returns a log that shares a pool with others.
func poolOf(logs int) *Log {
	l, p := new(Log), new(Pool)
	p.Add(logs)
	l.UsePool(p)
	return l
}

// adds adds a result n times.
func (l *Log) adds(n int, r *result.Result) {
	for range n {
		o := Observe(r, nil, false, false)
		l.Add(&o)
	}
}

// At most 30 probes of a series are kept; the latest failure stays.
func TestKeptNumber(t *testing.T) {
	var l Log
	for i := range 100 {
		r := answer(epoch().Add(time.Duration(i)*time.Second), 3)
		if i == 20 || i == 40 {
			r.Outcome = result.Empty
		}
		l.adds(1, r)
	}
	got := l.Kept()
	if len(got) != 30 {
		t.Fatalf("%d probes", len(got))
	}
	for i, k := range got {
		second, outcome := 70+i, result.Success
		if i == 0 {
			second, outcome = 40, result.Empty
		}
		if want := epoch().Add(time.Duration(second) * time.Second); !k.Start().Equal(want) || k.Outcome() != outcome {
			t.Errorf("probe %d: %v %v, want %v %v", i, k.Start(), k.Outcome(), want, outcome)
		}
	}
	// What explains a state is of the latest, and of the failures since it began.
	failure := got[0].Start()
	if got := l.Recent(12, failure.Add(1)); len(got) != 12 || got[0].Outcome() != result.Success {
		t.Errorf("%d recent probes", len(got))
	}
	if got := l.Recent(12, failure); len(got) != 13 || got[0].Outcome() != result.Empty || got[1].Outcome() != result.Success {
		t.Errorf("%d recent probes with the failure", len(got))
	}
}

// The more series, the fewer bytes each may keep: first events go, of all but the latest
// two, and then probes, but for two.
func TestKeptBytes(t *testing.T) {
	for _, c := range []struct{ logs, probes, events int }{
		{1, 30, 30},
		{100, 30, 30},  // 17 kB each, 30 probes of 0.4 kB fit
		{1000, 12, 4},  // 3.2 kB each: at 184 + 5 a probe, with 64*3 for events
		{10_000, 7, 2}, // 1.8 kB
	} {
		l := poolOf(c.logs)
		l.adds(100, answer(epoch(), 64))
		bytes, with := keptAlikeBytes, 0
		for _, k := range l.Kept() {
			bytes += int(k.size())
			if len(k.Result().Events) == 64 {
				with++
			}
		}
		last, _ := l.Last()
		if n := len(l.Kept()); n != c.probes || with != c.events || len(last.Result().Events) != 64 {
			t.Errorf("%d logs: %d probes, %d with events, want %d and %d", c.logs, n, with, c.probes, c.events)
		}
		if most := l.pool.allowance(); bytes != int(l.keptBytes) || bytes > most {
			t.Errorf("%d logs: %d bytes, counted %d, allowed %d", c.logs, bytes, l.keptBytes, most)
		}
	}
}

// However large, two probes are kept.
func TestKeptLargeProbes(t *testing.T) {
	l := poolOf(1_000_000)
	r := answer(epoch(), 3)
	r.Answer.Text = strings.Repeat("x", 5000)
	l.adds(5, r)
	if n := len(l.Kept()); n != 2 {
		t.Errorf("%d probes", n)
	}
}

// Events may take what half of the allowance leaves beside the rest.
func TestKeptEvents(t *testing.T) {
	for events, kept := range map[int]int{0: 0, 192: 192, 193: 0} {
		o := Observe(answer(epoch(), events), nil, false, false)
		if k := keep(&o, 2*(keptBytes+len("llama")+192*3)); len(keptEvents(k.events)) != kept {
			t.Errorf("%d events: kept %d, want %d", events, len(keptEvents(k.events)), kept)
		}
	}
}

// An answer that is long loses its events where there are many series, and then
// does not pretend that none was merged.
func TestKeptLongAnswers(t *testing.T) {
	l := poolOf(10_000)
	r := answer(epoch(), 10_000)
	r.Events[7].Merged, r.Events[8].Merged = true, true
	l.adds(20, r)
	last, _ := l.Last()
	d := last.Document(result.Target{})
	if d.Events != nil || d.Merged != 2 || *d.TTFT != 0.2 {
		t.Errorf("%+v", d)
	}
	if int(l.keptBytes) > l.pool.allowance() {
		t.Errorf("%d bytes", l.keptBytes)
	}
	l.UsePool(nil)
	l.adds(1, r)
	last, _ = l.Last()
	if n := len(last.Document(result.Target{}).Events); n != 10_000 {
		t.Errorf("%d events where there is room", n)
	}
}

// Events that do not fit are no events, rather than wrong ones.
func TestKeptEventsThatDoNotFit(t *testing.T) {
	for _, e := range []result.Event{{At: time.Hour + time.Second}, {At: -1}, {Tokens: 65536}, {Tokens: -1}} {
		r := answer(epoch(), 3)
		r.Events = append(r.Events, e)
		o := Observe(r, nil, false, false)
		if k := keep(&o, 1<<20); k.events != "" {
			t.Errorf("%+v is kept", e)
		}
	}
	o := Observe(answer(epoch(), 3), nil, false, false)
	if k := keep(&o, 1<<20); len(keptEvents(k.events)) != 3 {
		t.Error("events that fit are not kept")
	}
}

// The sizes that are counted are at least those in memory.
func TestKeptSizes(t *testing.T) {
	if n := reflect.TypeFor[Kept]().Size() + reflect.TypeFor[keptProbe]().Size(); n > keptBytes || n < keptBytes*9/10 {
		t.Errorf("a kept probe has %d bytes, counted as %d", n, keptBytes)
	}
	if n := reflect.TypeFor[keptAlike]().Size(); n != keptAlikeBytes {
		t.Errorf("what probes have in common has %d bytes, counted as %d", n, keptAlikeBytes)
	}
	if n := reflect.TypeFor[result.Answer]().Size(); n != keptAnswerBytes {
		t.Errorf("an answer has %d bytes, counted as %d", n, keptAnswerBytes)
	}
}

// What a probe has in common with those beside it is counted once, and as long as one of them is kept.
func TestKeptAlikeIsCounted(t *testing.T) {
	l := poolOf(1)
	size := func(answer string) int32 {
		r := answerWith(answer)
		l.adds(1, r)
		return l.keptBytes
	}
	first, second, third := size("a"), size("a"), size("b")
	if alone := second - first; first-alone != keptAlikeBytes+keptAnswerBytes || third-second != first {
		t.Errorf("%d bytes, then %d and %d", first, second, third)
	}
	l.adds(maxKept-1, answerWith("b")) // drops those with the other answer
	if n := len(l.kept); n != maxKept || l.keptBytes != first+int32(n-1)*(second-first) {
		t.Errorf("%d bytes of %d probes", l.keptBytes, n)
	}
}

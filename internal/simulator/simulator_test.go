package simulator

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const chatRequest = `{"messages":[{"content":"one two three"}],"max_tokens":%d,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`

func TestRecordIsWhatAClientSaw(t *testing.T) {
	v := serve(t, Options{DecodeStep: 2 * ms, ReasoningTokens: 3}, true)
	defer v.stop()
	begin := time.Now()
	a := v.post(context.Background(), "/v1/chat/completions", fmt.Sprintf(chatRequest, 10), 1<<20)
	if a.err != nil {
		t.Fatal(a.err)
	}
	r, ok := v.Request(trace)
	if !ok {
		t.Fatal("no record")
	}
	var kinds []string
	for _, e := range r.Events {
		kinds = append(kinds, fmt.Sprintf("%s %d", e.Kind, e.Tokens))
	}
	want := []string{"role 0"}
	for i := range 10 {
		want = append(want, map[bool]string{true: "reasoning 1", false: "answer 1"}[i < 3])
	}
	want = append(want, "usage 0", "done 0")
	if d := cmp.Diff(want, kinds); d != "" {
		t.Error(d)
	}
	if r.PromptTokens != 16 || r.CachedTokens != 0 || r.OutputTokens != 10 || r.Path != "/v1/chat/completions" {
		t.Errorf("%+v", r)
	}
	// Each event was written before the client had read its end, and not
	// before the one in front of it.
	last := begin
	for _, at := range append([]time.Time{r.Arrival}, times(r.Events)...) {
		if at.Before(last) {
			t.Errorf("%v is before %v", at, last)
		}
		last = at
	}
	seen, events := 0, 0
	for i, read := range a.reads {
		seen += strings.Count(read, "\n\n")
		for ; events < seen; events++ {
			if at := r.Events[events].At; at.After(a.readEnd[i]) {
				t.Errorf("event %d was read %v before its write", events, at.Sub(a.readEnd[i]))
			}
		}
	}
	if events != len(r.Events) {
		t.Errorf("client saw %d events, the record has %d", events, len(r.Events))
	}
}

func times(events []Event) []time.Time {
	var all []time.Time
	for _, e := range events {
		all = append(all, e.At)
	}
	return all
}

func TestRecordTellsTheEnginesTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{PrefillTokensPerSecond: 1000, DecodeStep: 20 * ms}, false)
		defer v.stop()
		ask := fmt.Sprintf(`{"prompt":"%s","max_tokens":4,"stream":true}`, strings.Repeat("four ", 100))
		v.post(context.Background(), "/v1/completions", ask, 1<<20)
		begin := time.Now()
		v.post(context.Background(), "/v1/completions", ask, 1<<20)
		r, ok := v.Request(trace)
		if !ok || r.Queue != 0 || r.Prefill != 24*ms || r.CachedTokens != 96 || r.PromptTokens != 100 {
			t.Errorf("%+v", r)
		}
		// 100 tokens, 96 of them cached, a step; then three steps.
		want := []time.Duration{24 * ms, 44 * ms, 64 * ms, 84 * ms, 84 * ms}
		var got []time.Duration
		for _, e := range r.Events {
			got = append(got, e.At.Sub(begin))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}

		var fromJSON Record
		v.getJSON("/simulator/requests/"+trace, &fromJSON)
		if r, _ = v.Request(trace); !r.Complete {
			t.Error("record is not complete")
		}
		if d := cmp.Diff(r, fromJSON); d != "" {
			t.Error(d)
		}
		var states []State
		v.getJSON("/simulator/state", &states)
		if d := cmp.Diff(v.State(), states); d != "" {
			t.Error(d)
		}
	})
}

func TestRequestsGoToTheLeastLoadedReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Replicas: 3, Slots: 2}, false)
		defer v.stop()
		ctx, cancel := context.WithCancel(context.Background())
		var clients sync.WaitGroup
		for range 7 {
			clients.Go(func() {
				v.post(ctx, "/v1/completions", `{"prompt":"x","max_tokens":5000,"stream":true}`, 1<<20)
			})
			time.Sleep(50 * ms)
		}
		var got []int
		for _, s := range v.State() {
			got = append(got, s.Running, s.Waiting)
		}
		if d := cmp.Diff([]int{2, 1, 2, 0, 2, 0}, got); d != "" {
			t.Error(d)
		}
		cancel()
		clients.Wait()
		time.Sleep(time.Second)
		for _, s := range v.State() {
			if s.Running+s.Waiting+s.BlocksInUse != 0 {
				t.Errorf("after the clients left: %+v", s)
			}
		}
	})
}

func TestServeEndsWithEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine stays
		v := serve(t, Options{Background: 40, DecodeStep: time.Hour}, false)
		begin := time.Now()
		var clients sync.WaitGroup
		for _, path := range []string{"/v1/completions", "/fault/stall_before_headers/v1/completions"} {
			clients.Go(func() {
				if a := v.post(context.Background(), path, `{"prompt":"x","stream":true}`, 1<<20); a.err == nil {
					t.Errorf("%s ended without an error", path)
				}
			})
		}
		synctest.Wait() // both requests run
		v.stop()
		clients.Wait()
		if took := time.Since(begin); took > 0 {
			t.Errorf("ended only after %v", took)
		}
	})
}

func TestServeTellsWhyItCannot(t *testing.T) {
	l := newPipeListener()
	_ = l.Close()
	if err := New(Options{}).Serve(context.Background(), l); err == nil {
		t.Error("no error from a closed listener")
	}
}

func TestRecordsAreBounded(t *testing.T) {
	var c latest[Record]
	id := func(i int) string { return fmt.Sprintf("%032x", i) }
	for i := range maxRecords + 10 {
		c.put(id(i), &Record{})
	}
	c.put(id(maxRecords+9), &Record{Path: "again"})
	for i, want := range map[int]bool{0: false, 9: false, 10: true, maxRecords + 9: true} {
		if c.find(id(i)) != nil != want {
			t.Errorf("record %d found: %v", i, !want)
		}
	}
	if r := c.find(id(maxRecords + 9)); len(c.byID) != maxRecords || r.Path != "again" {
		t.Errorf("%d records; a trace id must find its last request, not %+v", len(c.byID), r)
	}
	c.put("", &Record{})
	if c.find("") != nil {
		t.Error("found a record without a trace id")
	}
	rec := &record{}
	for range maxEvents + 1 {
		rec.add(&event{kind: Answer, tokens: 1})
	}
	if n := len(rec.snapshot().Events); n != maxEvents {
		t.Errorf("%d events kept, want %d", n, maxEvents)
	}
}

func TestTraceID(t *testing.T) {
	f := func(header, want string) {
		t.Helper()
		if got := traceID(header); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
	f("00-"+trace+"-b7ad6b7169203331-01", trace)
	f("00-"+trace+"-b7ad6b7169203331-01-more", trace)
	f("", "")
	f("00-123-456-01", "")
	f(trace, "")
}

// TestBackgroundIsNotRejected though it finds the queue full again and again.
func TestBackgroundIsNotRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Slots: 1, QueueLimit: 1, Background: 5}, false)
		defer v.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := v.State()[0]; s.Rejected != 0 || s.Running != 1 || s.Waiting != 1 || s.Finished["length"] == 0 {
			t.Errorf("state %+v", s)
		}
	})
}

// place is where a request went and what it found there.
type place struct{ Replica, Cached, Uncached int }

// ask sends a request of 100 tokens and returns its place.
func (v *serving) ask(word, session string) place {
	v.t.Helper()
	v.header = http.Header{}
	if session != "" {
		v.header.Set("X-Session-Id", session)
	}
	if a := v.post(context.Background(), "/v1/completions", completion(word, 100, 1), 1<<20); a.err != nil || a.status != 200 {
		v.t.Fatalf("status %d, error %v", a.status, a.err)
	}
	r, ok := v.Request(trace)
	if !ok {
		v.t.Fatal("no record")
	}
	return place{r.Replica, r.CachedTokens, r.PromptTokens - r.CachedTokens}
}

// TestRoutingOfPairs sends one prompt several times, one after the other: it is
// cached, 96 of 100 tokens, where it was before.
func TestRoutingOfPairs(t *testing.T) {
	cold := func(replica int) place { return place{replica, 0, 100} }
	warm := func(replica int) place { return place{replica, 96, 4} }
	f := func(o Options, want ...place) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, o, false)
			defer v.stop()
			var got []place
			for range want {
				got = append(got, v.ask("same", ""))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", o.Routing, d)
			}
		})
	}
	f(Options{Replicas: 2}, cold(0), warm(0), warm(0))
	f(Options{Replicas: 2, Routing: LeastLoaded}, cold(0), warm(0), warm(0))
	f(Options{Replicas: 2, Routing: Sticky}, cold(0), cold(1), warm(0)) // without the header
	f(Options{Replicas: 3, Routing: RoundRobin}, cold(0), cold(1), cold(2), warm(0), warm(1))
	f(Options{Replicas: 3, Routing: PrefixAware}, cold(0), warm(0), warm(0))
}

// Both requests of a session meet, and sessions spread over the replicas.
func TestStickyRouting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Replicas: 4, Routing: Sticky}, false)
		defer v.stop()
		var replicas [4]int
		for i := range 200 {
			session, word := fmt.Sprintf("session %d", i), fmt.Sprintf("%04d", i)
			first, second := v.ask(word, session), v.ask(word, session)
			if first.Replica != second.Replica || first.Cached != 0 || second.Cached != 96 {
				t.Fatalf("%s: %+v, then %+v", session, first, second)
			}
			replicas[first.Replica]++
		}
		// 50 each; four deviations of the binomial distribution are 24.5.
		for i, n := range replicas {
			if n < 26 || n > 74 {
				t.Errorf("replica %d has %d of 200 sessions", i, n)
			}
		}
	})
}

func TestStickyHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Replicas: 64, Routing: Sticky, StickyHeader: "X-Other"}, false)
		defer v.stop()
		for i := range 5 { // X-Session-Id means nothing here
			if p := v.ask(fmt.Sprintf("%04d", i), "session"); p.Replica != i {
				t.Errorf("went to %d", p.Replica)
			}
		}
	})
}

func TestRoutingNames(t *testing.T) {
	if d := cmp.Diff([]string{"least-loaded", "round-robin", "sticky", "random", "prefix-aware"}, Routings()); d != "" {
		t.Error(d)
	}
	if o := (Options{}).withDefaults(); o.Routing != Routings()[0] {
		t.Errorf("the default is %s", o.Routing)
	}
}

// A request that no replica took has none.
func TestRefusedRequestHasNoReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{}, false)
		defer v.stop()
		v.post(context.Background(), "/v1/completions", completion("long", 9000, 1), 1<<20)
		synctest.Wait()
		if r, ok := v.Request(trace); !ok || r.Replica != -1 || !r.Complete {
			t.Errorf("record %+v", r)
		}
	})
}

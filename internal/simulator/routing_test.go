package simulator

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

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
	return place{r.Replica, r.CachedTokens, r.UncachedTokens()}
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
	f(Options{Replicas: 2, Routing: Sticky}, cold(0), warm(0), warm(0)) // without the header
	f(Options{Replicas: 3, Routing: RoundRobin}, cold(0), cold(1), cold(2), warm(0), warm(1))
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
			if p := v.ask(fmt.Sprintf("%04d", i), fmt.Sprintf("session %d", i)); p.Replica != 0 {
				t.Errorf("went to %d", p.Replica)
			}
		}
	})
}

func TestRoutingNames(t *testing.T) {
	if d := cmp.Diff([]string{"least-loaded", "round-robin", "sticky"}, Routings()); d != "" {
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

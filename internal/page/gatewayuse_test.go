package page

import (
	"math"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
)

// gatewayAt is a reading of a gateway with one backend: so many requests ended and failed,
// and each of them waited for half a second.
func gatewayAt(requests, failed float64, pages ...string) *GatewaySnapshot {
	s := emptyGateway()
	s.Pages = pages
	s.Values[config.RoutingDecisions] = requests + failed
	s.Values[config.PrefixCacheAsked], s.Values[config.PrefixCacheHits] = 10*requests, 4*requests
	s.Requests["success"], s.Requests["error"] = requests, failed
	n := uint64(requests)
	s.Histograms[config.QueueTime] = &Histogram{Count: n, Sum: requests / 2}
	b := emptyGateway()
	b.Requests["success"], b.Requests["error"] = requests, failed
	s.Backends["b"] = b
	return s
}

// The use of a gateway is the growth of its counters over at most five minutes.
func TestGatewayUses(t *testing.T) {
	var u GatewayUses
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	read := func(after time.Duration, s *GatewaySnapshot) {
		t.Helper()
		u.Add(start.Add(after), s)
		if u.Latest() != s {
			t.Error("the latest reading is another")
		}
	}
	want := func(name string, span time.Duration, w GatewayUse) {
		t.Helper()
		if u.Span() != span {
			t.Errorf("%s: span %s, want %s", name, u.Span(), span)
		}
		if d := gocmp.Diff(w, u.Whole()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	// A reading every 15 s, with a request a second and every tenth a failure.
	for s := 0; s <= 600; s += 15 {
		read(time.Duration(s)*time.Second, gatewayAt(float64(s), float64(s)/10, "one"))
		if s == 0 {
			want("one reading", 0, GatewayUse{})
			continue
		}
		if u.Span() > GatewayWindow || s > 300 && u.Span() < GatewayWindow/2 {
			t.Errorf("after %d s the span is %s", s, u.Span())
		}
		if got := *u.Whole().Requests; math.Abs(got-1.1*u.Span().Seconds()) > 1e-9 {
			t.Errorf("after %d s: %v requests in %s", s, got, u.Span())
		}
	}
	read(615*time.Second, gatewayAt(700, 70, "one", "two"))
	want("another replica", 0, GatewayUse{})
	read(630*time.Second, gatewayAt(720, 80, "one", "two"))
	want("after that", 15*time.Second, GatewayUse{
		Requests: new(30.0), Failed: new(10.0), Decisions: new(30.0), HitRatio: new(0.4), Queue: new(0.5),
	})
	read(645*time.Second, gatewayAt(3, 0, "one", "two"))
	want("after a restart", 0, GatewayUse{})
}

// A backend that comes in the span counts from 0, one that is gone counts nothing, and it
// takes three failed requests, and a tenth of all, to be failing.
func TestUseOfBackends(t *testing.T) {
	var u GatewayUses
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	first, second := gatewayAt(100, 0, "one"), gatewayAt(127, 3, "one")
	second.Backends["new"] = gatewayAt(20, 3).Backends["b"]
	u.Add(start, first)
	u.Add(start.Add(time.Minute), second)
	for name, want := range map[string]struct {
		use     GatewayUse
		failing bool
	}{
		"b":    {GatewayUse{Requests: new(30.0), Failed: new(3.0)}, false},
		"new":  {GatewayUse{Requests: new(23.0), Failed: new(3.0)}, true},
		"gone": {GatewayUse{}, false},
	} {
		got := u.Backend(name)
		if d := gocmp.Diff(want.use, got); d != "" || got.IsFailing() != want.failing {
			t.Errorf("%s: failing %t (-want +got):\n%s", name, got.IsFailing(), d)
		}
	}
}

package page

import (
	"math"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inference-exporter/inference_exporter/config"
)

// gatewayAt is a reading of the replicas of a gateway with one backend: so many requests
// ended and failed at the first replica, and each of them waited for half a second.
func gatewayAt(at time.Time, requests, failed float64, replicas ...string) *Total {
	var statuses []Status
	for i, name := range replicas {
		n := requests
		if i > 0 {
			n, failed = 0, 0
		}
		statuses = append(statuses, Status{Server: name, Snapshot: &Snapshot{
			At:         at,
			Values:     map[config.Quantity]float64{config.RoutingDecisions: n + failed, config.PrefixCacheAsked: 10 * n, config.PrefixCacheHits: 4 * n},
			Requests:   map[string]float64{"success": n, "error": failed},
			Histograms: map[config.Quantity]*Histogram{config.QueueTime: {Count: uint64(n), Sum: n / 2}},
			Backends:   map[string]*Snapshot{"b": {Requests: map[string]float64{"success": n, "error": failed}}},
		}})
	}
	return NewTotal(statuses)
}

// The use of a gateway is the growth of its counters over at most five minutes.
func TestGatewayUses(t *testing.T) {
	var u GatewayUses
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	read := func(after time.Duration, requests, failed float64, replicas ...string) {
		t.Helper()
		s := gatewayAt(start.Add(after), requests, failed, replicas...)
		u.Add(s)
		if u.Latest() != s {
			t.Error("the latest reading is another")
		}
	}
	want := func(name string, span time.Duration, w *GatewayUse) {
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
		read(time.Duration(s)*time.Second, float64(s), float64(s)/10, "one")
		if s == 0 {
			want("one reading", 0, nil)
			continue
		}
		if u.Span() > GatewayWindow || s > 300 && u.Span() < GatewayWindow/2 {
			t.Errorf("after %d s the span is %s", s, u.Span())
		}
		if got := *u.Whole().Requests; math.Abs(got-1.1*u.Span().Seconds()) > 1e-9 {
			t.Errorf("after %d s: %v requests in %s", s, got, u.Span())
		}
	}
	read(615*time.Second, 700, 70, "one", "two")
	want("another replica", 0, nil)
	read(630*time.Second, 720, 80, "one", "two")
	want("after that", 15*time.Second, &GatewayUse{
		Requests: new(30.0), Failed: new(10.0), Decisions: new(30.0), HitRatio: new(0.4), Queue: new(0.5),
	})
	read(645*time.Second, 3, 0, "one", "two")
	want("after a restart", 0, nil)
}

// A backend that comes in the span counts from 0, one that is gone counts nothing, and it
// takes three failed requests, and a tenth of all, to be failing.
func TestUseOfBackends(t *testing.T) {
	var u GatewayUses
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	first, second := gatewayAt(start, 100, 0, "one"), gatewayAt(start.Add(time.Minute), 127, 3, "one")
	second.Backends["new"] = gatewayAt(start, 20, 3, "one").Backends["b"]
	u.Add(first)
	u.Add(second)
	for name, want := range map[string]struct {
		use     *GatewayUse
		failing bool
	}{
		"b":    {&GatewayUse{Requests: new(30.0), Failed: new(3.0)}, false},
		"new":  {&GatewayUse{Requests: new(23.0), Failed: new(3.0)}, true},
		"gone": {nil, false},
	} {
		got := u.Backend(name)
		if d := gocmp.Diff(want.use, got); d != "" || got.IsFailing() != want.failing {
			t.Errorf("%s: failing %t (-want +got):\n%s", name, got.IsFailing(), d)
		}
	}
}

// What the replicas of a gateway show is added, but for what they see of the same
// backends.
func TestTotal(t *testing.T) {
	page := func(waiting, ready, queued float64, bounds ...float64) *Snapshot {
		return &Snapshot{
			Engine:     "acme",
			Values:     map[config.Quantity]float64{config.RequestsWaiting: waiting, config.BackendsReady: ready},
			Requests:   map[string]float64{"success": queued},
			Histograms: map[config.Quantity]*Histogram{config.QueueTime: {Bounds: bounds, Counts: make([]uint64, len(bounds)), Count: uint64(queued), Sum: queued / 2}},
			Backends:   map[string]*Snapshot{"a": {Values: map[config.Quantity]float64{config.RoutingDecisions: queued}}},
		}
	}
	got := NewTotal([]Status{
		{Server: "one", State: Up, Snapshot: page(2, 3, 10, 1)},
		{Server: "two", State: Up, Snapshot: page(1, 4, 6, 2)},
		{Server: "three", State: Down},
	})
	want := &Total{
		Engine: "acme", Servers: []string{"one", "two"}, Failed: 1,
		Values:     map[config.Quantity]float64{config.RequestsWaiting: 3, config.BackendsReady: 4},
		Requests:   map[string]float64{"success": 16},
		Histograms: map[config.Quantity]*Histogram{config.QueueTime: {Count: 16, Sum: 8}},
		Backends:   map[string]*Total{"a": {Servers: []string{"one", "two"}, Values: map[config.Quantity]float64{config.RoutingDecisions: 16}}},
	}
	if d := gocmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Total{})); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if none := NewTotal([]Status{{Server: "one", State: Down}}); none != nil {
		t.Errorf("without a page that was read: %+v", none)
	}
}

// What one of several servers lacks is absent from their sum, unless it is a counter that
// another server of the same software shows; the largest is that of those who show it.
func TestTotalLacks(t *testing.T) {
	all := Snapshot{
		Engine: "acme",
		Values: map[config.Quantity]float64{
			config.RequestsRunning: 4, config.KVCacheUsage: 0.5, config.Preemptions: 7, config.GenerationTokens: 100,
		},
		Histograms: map[config.Quantity]*Histogram{config.TTFT: {Count: 1, Sum: 1}},
	}
	f := func(other Snapshot, want map[config.Quantity]float64) {
		t.Helper()
		got := NewTotal([]Status{{Server: "a", Snapshot: &all}, {Server: "b", Snapshot: &other}})
		if d := gocmp.Diff(want, got.Values); d != "" || got.Histograms[config.TTFT] != nil {
			t.Errorf("histograms %v, values (-want +got):\n%s", got.Histograms, d)
		}
	}
	f(Snapshot{Engine: "acme", Values: map[config.Quantity]float64{config.GenerationTokens: 11}},
		map[config.Quantity]float64{config.KVCacheUsage: 0.5, config.Preemptions: 7, config.GenerationTokens: 111})
	f(Snapshot{Engine: "other", Values: map[config.Quantity]float64{config.GenerationTokens: 11}},
		map[config.Quantity]float64{config.KVCacheUsage: 0.5, config.GenerationTokens: 111})
}

// Of what remains of a rate limit the smallest of all replicas counts, without those that do not show it.
func TestTotalOfWhatRemains(t *testing.T) {
	const left config.Quantity = "rate_limit_remaining_tokens"
	of := func(values ...float64) *Total {
		all := []Status{{Server: "idle", Snapshot: &Snapshot{}}}
		for i, v := range values {
			all = append(all, Status{Server: string(rune('a' + i)), Snapshot: &Snapshot{Values: map[config.Quantity]float64{left: v}}})
		}
		return NewTotal(all)
	}
	if got := of(9000, 300, 4000).Values[left]; got != 300 {
		t.Errorf("got %v, want 300", got)
	}
	if v, ok := of().Values[left]; ok {
		t.Errorf("got %v where no page has it", v)
	}
}

// The part of the prompt tokens that was cached is of those since the earlier reading, and the failures are not known of
// a gateway that does not say how requests ended.
func TestGatewayUseOfTokens(t *testing.T) {
	of := func(prompt, cached, ended float64) *Total {
		return NewTotal([]Status{{Server: "a", Snapshot: &Snapshot{
			Values:   map[config.Quantity]float64{config.PromptTokens: prompt, config.CachedTokens: cached},
			Requests: map[string]float64{config.FinishUnknown: ended},
		}}})
	}
	want := &GatewayUse{Requests: new(4.0), PromptTokens: new(800.0), CachedRatio: new(0.25)}
	if d := gocmp.Diff(want, useBetween(of(1000, 900, 1), of(1800, 1100, 5))); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got := useBetween(of(1000, 900, 1), of(1000, 900, 2)).CachedRatio; got != nil {
		t.Errorf("%v of no tokens were cached", *got)
	}
}

// Only totals of the same servers compare, and only where no server was restarted, even if
// the sum has grown.
func TestTotalFollows(t *testing.T) {
	of := func(a, b float64) *Total {
		s := func(v float64) *Snapshot {
			return &Snapshot{Values: map[config.Quantity]float64{config.GenerationTokens: v, config.RequestsRunning: 100 - v}}
		}
		return NewTotal([]Status{{Server: "a", Snapshot: s(a)}, {Server: "b", Snapshot: s(b)}})
	}
	before := of(5, 10)
	for name, c := range map[string]struct {
		now  *Total
		want bool
	}{
		"the same": {of(5, 10), true}, "work": {of(6, 12), true}, "a restart of one": {of(0, 90), false},
		"one is gone": {NewTotal([]Status{{Server: "a", Snapshot: before.pages[0]}, {Server: "b"}}), false},
	} {
		if got := c.now.Follows(before); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if before.Follows(nil) {
		t.Error("the first reading follows none")
	}
	if got := of(6, 12).Counted(before, config.GenerationTokens); got == nil || *got != 3 {
		t.Errorf("counted %v, want 3", got)
	}
}

// An endpoint is asleep where all engines of all its servers sleep, or its router has not loaded its model.
func TestAsleepByPages(t *testing.T) {
	server := func(awake, asleep float64) Status {
		return Status{State: Up, Snapshot: &Snapshot{Values: map[config.Quantity]float64{config.EnginesAwake: awake, config.EnginesSleeping: asleep}}}
	}
	unloaded := Status{State: Down, Reason: ReasonStatus, Absent: true, Sleeps: "the router has not loaded the model"}
	for _, c := range []struct {
		want     string
		statuses []Status
	}{
		{"", nil},
		{"", []Status{server(2, 0)}},
		{"", []Status{server(1, 1)}},
		{"the engine sleeps", []Status{server(0, 2)}},
		{"the engine sleeps", []Status{server(0, 1), server(0, 1)}},
		{"", []Status{server(0, 1), server(1, 0)}},
		{"", []Status{server(0, 1), {State: Down, Reason: ReasonConnect}}}, // what cannot be read is not asleep
		{"", []Status{server(0, 0)}},                                       // a page without the state
		{"the router has not loaded the model", []Status{unloaded}},
		{"", []Status{unloaded, server(1, 0)}},
		{"", []Status{{State: Down, Reason: ReasonConnect, Absent: true}}}, // not asked for want of a file
	} {
		if got := Asleep(c.statuses); got != c.want {
			t.Errorf("%+v: %q, want %q", c.statuses, got, c.want)
		}
	}
}

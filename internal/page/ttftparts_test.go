package page

import (
	"math"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// splitAt is when the tests of TTFTSplit begin.
var splitAt = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// split is what a test observes: a probe every 10 s, and pages every 15 s that count as many
// requests with these times.
type split struct {
	TTFTSplit
	now                     time.Time
	requests                uint64
	gateway, queue, prefill float64 // sums
}

// probe is one probe with the given times, and what the pages count of it.
func (s *split) probe(ttft, connect time.Duration, gateway, queue, prefill float64, own api.ServerTimes) {
	s.now = s.now.Add(10 * time.Second)
	r := &result.Result{Outcome: result.Success, Start: s.now, Server: own}
	r.Timing.TTFT, r.Timing.Duration = ttft, connect+ttft
	r.Timing.Phases[result.PhaseConnect] = connect
	s.Observe(r, true)
	s.now = s.now.Add(5 * time.Second)
	s.requests++
	s.gateway, s.queue, s.prefill = s.gateway+gateway, s.queue+queue, s.prefill+prefill
	s.read()
}

func (s *split) read() {
	total := func(name string, queue, prefill float64) *Total {
		return &Total{At: s.now, Servers: []string{name}, Histograms: map[config.Quantity]*Histogram{
			config.QueueTime: {Count: s.requests, Sum: queue}, config.PrefillTime: {Count: s.requests, Sum: prefill},
		}}
	}
	s.Read(total("a", s.queue, s.prefill), total("g", s.gateway, 0))
}

func untold() api.ServerTimes { return api.ServerTimes{Queue: -1, Prefill: -1, Decode: -1} }

// Probes of another model are not divided with those of the one before.
func TestTTFTPartsOfAnotherModel(t *testing.T) {
	s := new(TTFTSplit)
	f := func(model string, known bool) {
		t.Helper()
		for i := range minTTFTProbes {
			r := &result.Result{Outcome: result.Success, Start: splitAt.Add(time.Duration(i) * time.Second), Model: model, Server: api.ServerTimes{Queue: 0, Prefill: time.Second}}
			r.Timing.TTFT, r.Timing.Duration = 2*time.Second, 2*time.Second
			if s.Observe(r, true); (s.Parts(splitAt.Add(time.Minute)) != nil) != (known || i == minTTFTProbes-1) {
				t.Errorf("after probe %d of %s: %+v", i, model, s.Parts(splitAt.Add(time.Minute)))
			}
		}
	}
	f("a", false)
	f("a", true)
	f("b", false)
}

// wantParts compares the parts; NaN is unknown.
func wantParts(t *testing.T, got *TTFTParts, want ...float64) {
	t.Helper()
	if got == nil {
		t.Fatal("no parts")
	}
	sum := 0.0
	for i, name := range TTFTPartNames() {
		v := math.NaN()
		if got.Seconds[i] != nil {
			v = *got.Seconds[i]
			sum += v
		}
		if math.Abs(v-want[i]) > 1e-6 || math.IsNaN(v) != math.IsNaN(want[i]) {
			t.Errorf("%s: %v, want %v", name, v, want[i])
		}
	}
	if math.Abs(sum-got.TTFT) > 1e-6 {
		t.Errorf("the parts are %v together, TTFT is %v", sum, got.TTFT)
	}
}

const millisecond = time.Millisecond

func TestTTFTParts(t *testing.T) {
	unknown := math.NaN()
	s := &split{now: splitAt}
	s.read()
	for range 2 {
		s.probe(500*millisecond, 20*millisecond, 0.1, 0.05, 0.25, untold())
	}
	if p := s.Parts(s.now); p != nil {
		t.Errorf("parts of two probes: %+v", p)
	}
	s.probe(500*millisecond, 20*millisecond, 0.1, 0.05, 0.25, untold())
	wantParts(t, s.Parts(s.now), 0.02, 0.1, 0.05, 0.25, 0.08)
	// Minutes later nothing of the past is left.
	for range 25 {
		s.probe(600*millisecond, 20*millisecond, 0.3, 0.05, 0.2, untold())
	}
	p := s.Parts(s.now)
	wantParts(t, p, 0.02, 0.3, 0.05, 0.2, 0.03)
	if p.Span > TTFTWindow || p.Span < TTFTWindow*9/10 || p.Requests < uint64(p.Probes) || p.Probes < 18 {
		t.Errorf("%+v", p)
	}
	// A server that was restarted begins again: until three probes there is nothing, and the
	// gateway's mean is of the same time.
	s.requests, s.queue, s.prefill, s.gateway = 0, 0, 0, 0
	s.read()
	if p := s.Parts(s.now); p != nil {
		t.Errorf("parts after a restart: %+v", p)
	}
	for range 3 {
		s.probe(900*millisecond, 20*millisecond, 0, 0.6, 0.2, untold())
	}
	wantParts(t, s.Parts(s.now), 0.02, 0, 0.6, 0.2, 0.08)
	// What replies say of their own request goes before the pages.
	s.Restart()
	s.read()
	for range 3 {
		s.probe(900*millisecond, 20*millisecond, 0.1, 5, 5, api.ServerTimes{Queue: 300 * millisecond, Prefill: 400 * millisecond, Decode: -1})
	}
	wantParts(t, s.Parts(s.now), 0.02, 0.1, 0.3, 0.4, 0.08)
	// Pages that nothing reads any more are no part of later minutes.
	wantParts(t, func() *TTFTParts {
		s.now = s.now.Add(TTFTWindow)
		for range 3 {
			s.now = s.now.Add(time.Second)
			r := &result.Result{Outcome: result.Success, Start: s.now, Reused: true, Server: api.ServerTimes{Queue: -1, Prefill: 400 * millisecond, Decode: -1}}
			r.Timing.TTFT, r.Timing.Duration = 500*millisecond, 500*millisecond
			s.Observe(r, true)
		}
		s.now = s.now.Add(time.Second)
		return s.Parts(s.now)
	}(), unknown, unknown, unknown, 0.4, 0.1)
}

// Means of other requests that do not fit into the TTFT of the probes are no parts of it.
// Those that exceed it by little are scaled.
func TestTTFTPartsThatExceed(t *testing.T) {
	s := &split{now: splitAt}
	s.read()
	for range 3 {
		s.probe(500*millisecond, 0, 0.21, 0, 0.31, untold())
	}
	wantParts(t, s.Parts(s.now), 0, 0.21/0.52*0.5, 0, 0.31/0.52*0.5, 0)
	for range 20 {
		s.probe(500*millisecond, 0, 0.3, 0, 0.3, untold())
	}
	p := s.Parts(s.now)
	if p == nil || p.Seconds != [numTTFTParts]*float64{} || math.Abs(p.Excess-0.1) > 1e-6 {
		t.Errorf("%+v", p)
	}
}

// Where the servers counted fewer requests than there were probes, the probes went
// elsewhere; and without anything of a server or gateway there are no parts.
func TestTTFTPartsOfOtherServers(t *testing.T) {
	s := &split{now: splitAt}
	s.read()
	for range 4 {
		s.requests--
		s.probe(500*millisecond, 20*millisecond, 0.1, 0.1, 0.1, untold())
	}
	if p := s.Parts(s.now); p != nil {
		t.Errorf("%+v", p)
	}
	plain := &split{now: splitAt}
	r := &result.Result{Outcome: result.Success, Start: splitAt, Server: untold()}
	for range 5 {
		plain.Observe(r, true)
	}
	if p := plain.Parts(splitAt); p != nil || plain.probes != nil {
		t.Errorf("%+v of an endpoint without pages", p)
	}
}

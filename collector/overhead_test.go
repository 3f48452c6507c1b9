package collector

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// overheadTest feeds a store with the readings and probes of one endpoint.
type overheadTest struct {
	t *testing.T
	s *Servers
}

func newOverheadTest(t *testing.T) *overheadTest {
	o := &overheadTest{t, NewServers()}
	o.s.set(ServersID{Endpoint: "e"}, nil)
	return o
}

// reading is what the histogram of one server holds.
type reading struct {
	server string
	count  uint64
	sum    float64
}

// scrape sets the servers as read a time after the epoch.
func (o *overheadTest) scrape(at time.Duration, servers ...reading) {
	var statuses []page.Status
	for _, r := range servers {
		st := plainStatus(r.server)
		st.At = epoch.Add(at - time.Second)
		st.Snapshot.At = epoch.Add(at)
		st.Snapshot.Histograms = map[config.Quantity]*page.Histogram{config.TTFT: {Count: r.count, Sum: r.sum}}
		statuses = append(statuses, st)
	}
	o.s.set(ServersID{Endpoint: "e"}, statuses)
}

// probe observes a success whose first token came a time after the epoch.
func (o *overheadTest) probe(at, ttft time.Duration) {
	r := success()
	r.Timing.TTFT = ttft
	r.Start = epoch.Add(at - ttft)
	o.s.of("e").ObserveProbe(r, false)
}

// want checks the samples of both sources; "" is absent. Others are compared
// to the microsecond.
func (o *overheadTest) want(reply, histogram string) {
	o.t.Helper()
	got := samples(o.t, o.s)
	for source, want := range map[string]string{"reply": reply, "histogram": histogram} {
		value := got[namePrefix+`endpoint_ttft_overhead_seconds{endpoint="e",source="`+source+`"}`]
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			value = strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
		}
		if value != want {
			o.t.Errorf("overhead by %s = %q, want %q", source, value, want)
		}
	}
}

func TestOverheadByReply(t *testing.T) {
	o := newOverheadTest(t)
	o.want("", "")
	reply := func(outcome result.Outcome, ttft, queue, prefill time.Duration) {
		r := success()
		r.Outcome, r.Timing.TTFT, r.Server.Queue, r.Server.Prefill = outcome, ttft, queue, prefill
		o.s.of("e").ObserveProbe(r, false)
	}
	const ms = time.Millisecond
	reply(result.Success, 250*ms, 30*ms, 170*ms) // 250 - 30 - 170
	o.want("0.05", "")
	reply(result.Canceled, 900*ms, 0, 0)
	o.want("0.05", "")
	reply(result.TimeoutStall, 250*ms, 0, 170*ms)
	o.want("", "")
	reply(result.Success, 250*ms, 0, 240*ms)
	o.want("0.01", "")
	reply(result.Success, 250*ms, result.Absent, 240*ms) // reported one part only
	o.want("", "")
	reply(result.Success, 250*ms, 0, 0)
	o.want("0.25", "")
	reply(result.Success, 250*ms, 0, result.Absent)
	o.want("", "")
	reply(result.Success, 200*ms, 10*ms, 240*ms) // the server's clock is not ours
	o.want("-0.05", "")
	reply(result.Success, result.Absent, 0, 0)
	o.want("", "")

	r := success()
	r.Server.Queue, r.Server.Prefill = 0, 150*ms
	o.s.of("e").ObserveProbe(r, true) // our own load is what lay between
	o.want("", "")
	r.Imprecise = true
	o.s.of("e").ObserveProbe(r, false)
	o.want("", "")
}

func TestOverheadByHistogram(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	t.Run("means", func(t *testing.T) {
		o := newOverheadTest(t)
		o.scrape(0, reading{"a", 10, 100}, reading{"b", 0, 0})
		o.probe(5*s, 300*ms)
		o.want("", "") // one reading is no window
		o.probe(10*s, 500*ms)
		// Probes: (0.3+0.5)/2 = 0.4. Servers: (0.6+0.3)/(2+1) = 0.3.
		o.scrape(15*s, reading{"a", 12, 100.6}, reading{"b", 1, 0.3})
		o.want("", "0.1")
		// The window grows. Probes: (0.3+0.5+0.7)/3 = 0.5. Servers: (1.6+0.8)/4 = 0.6.
		o.probe(20*s, 700*ms)
		o.scrape(30*s, reading{"a", 13, 101.6}, reading{"b", 1, 0.8})
		o.want("", "-0.1")
	})
	t.Run("reply wins", func(t *testing.T) {
		o := newOverheadTest(t)
		o.scrape(0, reading{"a", 0, 0})
		o.probe(5*s, 300*ms)
		o.scrape(15*s, reading{"a", 1, 0.2})
		o.want("", "0.1")
		r := success()
		r.Server.Queue, r.Server.Prefill = 0, 150*ms
		o.s.of("e").ObserveProbe(r, false)
		o.want("0.05", "")
		o.s.of("e").ObserveProbe(failure(), false)
		o.want("", "") // and not the other quantity meanwhile
	})
	t.Run("most requests are others", func(t *testing.T) {
		o := newOverheadTest(t)
		o.scrape(0, reading{"a", 0, 0})
		o.probe(5*s, 300*ms)
		o.scrape(15*s, reading{"a", 2, 0.4})
		o.want("", "0.1")
		o.scrape(30*s, reading{"a", 3, 2.4}) // 0.3 less 0.8
		o.want("", "")
		if g := o.s.of("e").servers.overhead.latest[overheadTraffic]; !(math.Abs(g+0.5) <= 1e-9) {
			t.Errorf("traffic: %+v, want -0.5", g)
		}
	})
	t.Run("bursts are on neither side", func(t *testing.T) {
		o := newOverheadTest(t)
		o.scrape(0, reading{"a", 0, 0})
		o.probe(5*s, 300*ms)
		o.scrape(15*s, reading{"a", 1, 0.2})
		o.want("", "0.1")
		o.s.of("e").CountBursts(1)
		o.want("", "")
		o.scrape(30*s, reading{"a", 65, 64.2}) // 64 requests of 1 s each
		o.want("", "")
		o.probe(31*s, 2*s)
		o.s.of("e").CountBursts(-1)
		o.scrape(45*s, reading{"a", 66, 66.2})
		o.probe(50*s, 300*ms)
		o.want("", "") // a new window begins
		o.scrape(60*s, reading{"a", 67, 66.4})
		o.want("", "0.1")
	})
	t.Run("a disturbed probe is on both", func(t *testing.T) {
		o := newOverheadTest(t)
		o.scrape(0, reading{"a", 0, 0})
		o.probe(5*s, 300*ms)
		r := success()
		r.Timing.TTFT, r.Start = 900*ms, epoch.Add(9*s)
		o.s.of("e").ObserveProbe(r, true)
		o.scrape(15*s, reading{"a", 2, 1.0}) // 0.6 less 0.5
		o.want("", "0.1")
	})
	t.Run("the instant of the token", func(t *testing.T) {
		o := newOverheadTest(t)
		o.scrape(0, reading{"a", 5, 5})
		r := success() // on a new connection: 1 s of set-up, then 2 s to the token
		r.Start, r.Timing.TTFT = epoch.Add(13*s), 2*s
		r.Timing.Phases = [result.NumPhases]time.Duration{result.PhaseDNS: 100 * ms, result.PhaseConnect: 300 * ms, result.PhaseTLS: 600 * ms}
		o.s.of("e").ObserveProbe(r, false)
		o.probe(0, 9*s)                      // of the time before
		o.scrape(15*s, reading{"a", 6, 6.9}) // the token came at 16 s
		o.want("", "")
		o.scrape(16*s, reading{"a", 6, 6.9})
		o.want("", "0.1")
	})
	t.Run("fewer requests than probes", func(t *testing.T) {
		o := newOverheadTest(t)
		o.scrape(0, reading{"a", 0, 0})
		o.probe(5*s, 300*ms)
		o.probe(6*s, 300*ms)
		o.scrape(15*s, reading{"a", 1, 0.2})
		o.want("", "")
		o.scrape(30*s, reading{"a", 2, 0.4}) // they are there at last
		o.want("", "0.1")
	})
	t.Run("no probe", func(t *testing.T) {
		o := newOverheadTest(t)
		o.scrape(0, reading{"a", 0, 0})
		o.s.of("e").ObserveProbe(failure(), false)
		o.scrape(15*s, reading{"a", 1, 0.2})
		o.want("", "")
	})
}

// Whatever breaks the series of readings ends the window.
func TestOverheadNeedsAWindow(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	tests := map[string]struct {
		then []reading // after 1 request on a and none on b
		want string
	}{
		"goes on":        {[]reading{{"a", 2, 0.4}, {"b", 0, 0}}, "0.1"},
		"a restarted":    {[]reading{{"a", 0, 0}, {"b", 3, 0.6}}, ""},
		"sum fell":       {[]reading{{"a", 2, 0.1}, {"b", 0, 0}}, ""},
		"b went":         {[]reading{{"a", 2, 0.4}}, ""},
		"c came":         {[]reading{{"a", 2, 0.4}, {"b", 0, 0}, {"c", 0, 0}}, ""},
		"another server": {[]reading{{"a", 2, 0.4}, {"c", 0, 0}}, ""},
		"none":           {nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := newOverheadTest(t)
			o.scrape(0, reading{"a", 0, 0}, reading{"b", 0, 0})
			o.probe(5*s, 300*ms)
			o.scrape(15*s, reading{"a", 1, 0.2}, reading{"b", 0, 0})
			o.want("", "0.1")
			o.probe(20*s, 300*ms)
			o.scrape(30*s, tt.then...)
			o.want("", tt.want)
		})
	}

	for name, spoil := range map[string]func(st *page.Status){
		"down":         func(st *page.Status) { *st = downStatus("b") },
		"no histogram": func(st *page.Status) { st.Snapshot.Histograms = nil },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOverheadTest(t)
			o.scrape(0, reading{"a", 0, 0}, reading{"b", 0, 0})
			o.probe(5*s, 300*ms)
			o.scrape(15*s, reading{"a", 1, 0.2}, reading{"b", 0, 0})
			o.want("", "0.1")
			e := o.s.of("e")
			spoilt := []page.Status{*e.servers.all["a"].status, *e.servers.all["b"].status}
			spoil(&spoilt[1])
			o.s.set(ServersID{Endpoint: "e"}, spoilt)
			o.want("", "")
			o.probe(20*s, 300*ms)
			o.scrape(30*s, reading{"a", 9, 1.8}, reading{"b", 0, 0}) // a new start
			o.want("", "")
			o.probe(35*s, 500*ms)
			o.scrape(45*s, reading{"a", 10, 2.2}, reading{"b", 0, 0})
			o.want("", "0.1") // 0.5 less 0.4
		})
	}
}

// Another model is not compared with the one before.
func TestOverheadOfAnotherModel(t *testing.T) {
	o := newOverheadTest(t)
	o.scrape(0, reading{"a", 0, 0})
	o.probe(5*time.Second, 300*time.Millisecond)
	o.scrape(15*time.Second, reading{"a", 1, 0.2})
	statuses := []page.Status{*o.s.of("e").servers.all["a"].status}
	present := func() (float64, bool) {
		v := o.s.of("e").servers.overhead.latest[overheadHistogram]
		return v, !math.IsNaN(v)
	}
	if _, ok := present(); !ok {
		t.Error("no overhead")
	}
	o.s.set(ServersID{Endpoint: "e", Model: "m"}, statuses) // becomes known
	if _, ok := present(); !ok {
		t.Error("the name of the model took the overhead")
	}
	o.s.set(ServersID{Endpoint: "e", Model: "n"}, statuses)
	if g, ok := present(); ok {
		t.Errorf("overhead %v of another model", g)
	}
}

// A window is at most 5 minutes long, whatever the interval, and memory is
// bounded.
func TestOverheadWindow(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 15 * time.Second, 4 * time.Minute} {
		t.Run(fmt.Sprint(interval), func(t *testing.T) {
			o := newOverheadTest(t)
			n := uint64(0)
			for at := time.Duration(0); at <= 20*time.Minute; at += interval {
				o.scrape(at, reading{"a", n, 0.2 * float64(n)})
				// For ten minutes probes take 0.3 s, then 0.5 s.
				ttft := 300 * time.Millisecond
				if at >= 10*time.Minute {
					ttft = 500 * time.Millisecond
				}
				o.probe(at+interval/2, ttft)
				n++
				v := &o.s.of("e").servers.overhead
				if len(v.starts) > maxStarts+1 || len(v.probes) > maxComparedProbes {
					t.Fatalf("%d readings and %d probes are kept", len(v.starts), len(v.probes))
				}
				switch {
				case at == 9*time.Minute || at == 8*time.Minute:
					o.want("", "0.1")
				case at > 16*time.Minute:
					o.want("", "0.3")
				}
			}
		})
	}
	t.Run("longer than the window", func(t *testing.T) {
		o := newOverheadTest(t)
		o.scrape(0, reading{"a", 0, 0})
		o.probe(time.Minute, 300*time.Millisecond)
		o.scrape(5*time.Minute+1, reading{"a", 1, 0.2})
		o.want("", "")
	})
	t.Run("without servers", func(t *testing.T) {
		o := newOverheadTest(t)
		for i := range 1000 {
			o.probe(time.Duration(i)*time.Second, time.Second)
		}
		if n := len(o.s.of("e").servers.overhead.probes); n > 0 {
			t.Errorf("%d probes are kept", n)
		}
	})
}

// Where there are too many probes the window gets shorter, so that none that
// the servers counted is left out.
func TestOverheadOfManyProbes(t *testing.T) {
	o := newOverheadTest(t)
	o.scrape(0, reading{"a", 0, 0})
	for i := range 100 { // in the first 100 s 0.3 s each, with 0.2 s of the server
		o.probe(time.Duration(i+1)*time.Second, 300*time.Millisecond)
	}
	o.scrape(100*time.Second, reading{"a", 100, 20})
	o.want("", "0.1")
	for i := range 200 { // then 0.5 s each, with 0.2 s of the server
		o.probe(100*time.Second+time.Duration(i+1)*500*time.Millisecond, 500*time.Millisecond)
	}
	// 300 probes are 44 too many: the reading at 0 s goes, the one at 100 s is
	// the start.
	o.scrape(200*time.Second, reading{"a", 300, 60})
	o.want("", "0.3")
	for i := range maxComparedProbes + 1 { // more than are kept between two readings
		o.probe(200*time.Second+time.Duration(i+1)*time.Millisecond, 500*time.Millisecond)
	}
	o.scrape(210*time.Second, reading{"a", 600, 120})
	o.want("", "")
	o.probe(211*time.Second, 500*time.Millisecond)
	o.scrape(220*time.Second, reading{"a", 601, 120.4})
	o.want("", "0.1")
}

// allTTFTParts are parts all of which are known: 1 s of each, in the order of their names.
func allTTFTParts() *page.TTFTParts {
	p := &page.TTFTParts{TTFT: 15, Probes: 3}
	for i := range p.Seconds {
		p.Seconds[i] = new(float64(i + 1))
	}
	return p
}

func TestTTFTPartsAreOfTheirEndpoint(t *testing.T) {
	s, facts := NewServers(), new(workload.Facts)
	s.set(ServersID{Endpoint: "e", Model: "m", Facts: facts}, nil)
	const part = namePrefix + `endpoint_ttft_part_seconds{endpoint="e",model="m",part="%s"}`
	workload.SetFact(facts, allTTFTParts())
	if got := samples(t, s); got[fmt.Sprintf(part, "network")] != "1" || got[fmt.Sprintf(part, "rest")] != "5" {
		t.Errorf("page %v", got)
	}
	unknown := allTTFTParts()
	unknown.Seconds[1] = nil
	workload.SetFact(facts, unknown)
	if _, ok := samples(t, s)[fmt.Sprintf(part, "gateway_queue")]; ok {
		t.Error("a part that is not known")
	}
	workload.SetFact[*page.TTFTParts](facts, nil)
	if got := samples(t, s); got[fmt.Sprintf(part, "network")] != "" {
		t.Errorf("page %v, want no parts", got)
	}
}

package prober

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

func newBurst(levels ...int) *config.Module {
	m := newModule()
	m.Concurrency = levels
	return m
}

// outcomes counts the results of each level by outcome.
func outcomes(results []*result.Result) map[int]map[result.Outcome]int {
	all := map[int]map[result.Outcome]int{}
	for _, r := range results {
		if all[r.Concurrency] == nil {
			all[r.Concurrency] = map[result.Outcome]int{}
		}
		all[r.Concurrency][r.Outcome]++
	}
	return all
}

// All requests of a burst are with the server before it answers one.
func TestBurstIsAtOnce(t *testing.T) {
	const n = 8
	var arrived sync.WaitGroup
	s := chat(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived.Done()
		arrived.Wait()
		events(w, one, stop, usage, endMarker)
	})
	p := newProber(t, newEndpoint(t, s.URL), newBurst(n))
	arrived.Add(n)
	due := time.Now()
	results := p.all(t.Context(), due)
	if diff := cmp.Diff(map[int]map[result.Outcome]int{n: {result.Success: n}}, outcomes(results)); diff != "" {
		t.Fatalf("outcomes (-want +got):\n%s", diff)
	}
	for i, r := range results {
		checkConsistent(t, r)
		if r.Reused || r.Timing.Phases[result.PhaseConnect] < 0 {
			t.Errorf("request %d: reused %t, phases %v; want a connection of its own", i, r.Reused, r.Timing.Phases)
		}
		if r.Sent.Before(r.Start) || r.Sent.After(r.Start.Add(r.Timing.Duration)) {
			t.Errorf("request %d: sent at %s, not between %s and %s after that", i, r.Sent, r.Start, r.Timing.Duration)
		}
		if scheduled := !r.Scheduled.IsZero(); scheduled != (i == 0) || scheduled != (r.StartLag >= 0) {
			t.Errorf("request %d: scheduled %s, start lag %s; want them of the first alone", i, r.Scheduled, r.StartLag)
		}
	}
}

// secure serves chat over TLS; handshake is called as each one begins, with its
// number from 1 on, and may fail it.
func secure(t *testing.T, answer http.HandlerFunc, handshake func(n int64) error) *config.Endpoint {
	t.Helper()
	s := testlab.NewServer(t, answer)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	var count atomic.Int64
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return nil, handshake(count.Add(1))
	}}
	s.StartTLS()
	cfg := newEndpoint(t, s.URL)
	cfg.HTTP.TLSConfig.InsecureSkipVerify = true
	return cfg
}

func answerOne(w http.ResponseWriter, _ *http.Request) { events(w, one, stop, usage, endMarker) }

// Nothing is sent until the last connection is ready.
func TestBurstWaitsForConnections(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		const n = 4
		var mu sync.Mutex
		var last time.Time
		cfg := secure(t, answerOne, func(i int64) error {
			if i == n {
				time.Sleep(100 * time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			last = time.Now()
			return nil
		})
		results := newProber(t, cfg, newBurst(n)).all(testlab.Context(t), time.Time{})
		if diff := cmp.Diff(map[int]map[result.Outcome]int{n: {result.Success: n}}, outcomes(results)); diff != "" {
			t.Fatalf("outcomes (-want +got):\n%s", diff)
		}
		mu.Lock()
		defer mu.Unlock()
		for i, r := range results {
			checkConsistent(t, r)
			if r.Sent.Before(last) {
				t.Errorf("request %d was sent %s before the last handshake", i, last.Sub(r.Sent))
			}
		}
	})
}

// A request that gets no connection is not waited for, and ends the run.
func TestBurstWithoutAConnection(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		cfg := secure(t, answerOne, func(i int64) error {
			if i == 3 { // the first of the second level is the second handshake
				return errors.New("refused")
			}
			return nil
		})
		m := newBurst(1, 4, 16)
		began := time.Now()
		results := newProber(t, cfg, m).all(testlab.Context(t), time.Time{})
		want := map[int]map[result.Outcome]int{1: {result.Success: 1}, 4: {result.Success: 3, result.TLSError: 1}}
		if diff := cmp.Diff(want, outcomes(results)); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		if d := time.Since(began); d >= time.Duration(m.Timeouts.Connect) {
			t.Errorf("took %s: the others waited for one that had failed", d)
		}
		for _, r := range results {
			if r.Outcome == result.TLSError && !r.Sent.IsZero() {
				t.Errorf("sent at %s without a connection", r.Sent)
			}
		}
	})
}

// The end of the context ends the wait, and nothing is sent.
func TestBurstIsCanceled(t *testing.T) {
	const n = 4
	ctx, cancel := context.WithCancel(t.Context())
	var requests, ready atomic.Int64
	cfg := secure(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		answerOne(w, r)
	}, func(i int64) error {
		if ready.Add(1) == n { // the others are at the gate, or about to be
			cancel()
			<-t.Context().Done()
		}
		return nil
	})
	m := newBurst(n, 2*n)
	began := time.Now()
	results := newProber(t, cfg, m).all(ctx, time.Time{})
	if diff := cmp.Diff(map[int]map[result.Outcome]int{n: {result.Canceled: n}}, outcomes(results)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if d := time.Since(began); d >= time.Duration(m.Timeouts.Connect) {
		t.Errorf("took %s", d)
	}
	if got := requests.Load(); got != 0 {
		t.Errorf("%d requests were sent", got)
	}
}

// The server says how much is too much.
func TestBurstEndsAtARefusal(t *testing.T) {
	var requests atomic.Int64
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 5 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answerOne(w, r)
	})
	results := newProber(t, newEndpoint(t, s.URL), newBurst(2, 3, 4)).all(t.Context(), time.Time{})
	want := map[int]map[result.Outcome]int{2: {result.Success: 2}, 3: {result.Success: 2, result.RateLimited: 1}}
	if diff := cmp.Diff(want, outcomes(results)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// HTTP/2 would put the requests on one connection.
func TestBurstOverHTTP2(t *testing.T) {
	const n = 8
	s, connections := chatHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("asked by %s, want HTTP/2", r.Proto)
		}
		answerOne(w, r)
	})
	results := newProber(t, newHTTP2Endpoint(t, s), newBurst(n)).all(t.Context(), time.Time{})
	if diff := cmp.Diff(map[int]map[result.Outcome]int{n: {result.Success: n}}, outcomes(results)); diff != "" {
		for _, r := range results {
			t.Logf("%s: %v", r.Outcome, r.Err)
		}
		t.Fatalf("outcomes (-want +got):\n%s", diff)
	}
	for _, r := range results {
		checkConsistent(t, r)
	}
	if c := connections.Load(); c != n {
		t.Errorf("%d connections for %d requests", c, n)
	}
}

// A burst teaches the length of prompts as other probes do.
func TestBurstReachesTheLength(t *testing.T) {
	_, url := startSimulator(t)
	m := newBurst(4, 4, 4, 4)
	m.InputTokens, m.OutputTokens = config.Tokens(512), config.Tokens(2)
	cfg := newEndpoint(t, url)
	cfg.Model = "simulated-8b"
	results := newProber(t, cfg, m).all(t.Context(), time.Time{})
	if len(results) != 16 {
		t.Fatalf("%d results, want 16: %v", len(results), outcomes(results))
	}
	for _, r := range results[12:] {
		if off := float64(r.Tokens.Prompt)/512 - 1; off < -0.05 || off > 0.05 || r.Length != 512 {
			t.Errorf("prompt of %d tokens, made to %d, want 512 within 5 %%", r.Tokens.Prompt, r.Length)
		}
		if r.Tokens.Cached > 0 {
			t.Errorf("%d tokens were cached: prompts of one burst must differ", r.Tokens.Cached)
		}
	}
}

// BenchmarkBurst is a burst of 64 against a server in the same process. It
// reports the medians of how far apart the requests were, by our own stamps and
// by when the server had read them.
func BenchmarkBurst(b *testing.B) {
	const n = 64
	s, url := startSimulator(b)
	cfg := newEndpoint(b, url)
	cfg.Model = "simulated-8b"
	m := newBurst(n)
	m.OutputTokens = config.Tokens(4)
	p := newProber(b, cfg, m)
	var sent, arrived []time.Duration
	for b.Loop() {
		var ours, theirs []time.Time
		for _, r := range p.all(b.Context(), time.Time{}) {
			if r.Outcome != result.Success {
				b.Fatalf("outcome %s: %v", r.Outcome, r.Err)
			}
			rec, _ := written(b, s, r)
			ours, theirs = append(ours, r.Sent), append(theirs, rec.Arrival)
		}
		sent, arrived = append(sent, spread(ours)), append(arrived, spread(theirs))
	}
	slices.Sort(sent)
	slices.Sort(arrived)
	b.ReportMetric(float64(sent[len(sent)/2].Microseconds()), "sent-spread-us")
	b.ReportMetric(float64(arrived[len(arrived)/2].Microseconds()), "arrival-spread-us")
}

func spread(at []time.Time) time.Duration {
	return slices.MaxFunc(at, time.Time.Compare).Sub(slices.MinFunc(at, time.Time.Compare))
}

// passing is a request at the gate: when it came, and when it was sent.
type passing struct{ came, sent time.Duration }

// throughGate sends requests that come at the given times, of n; negative ones
// fail then.
func throughGate(n int, patience time.Duration, at ...time.Duration) []passing {
	g := &gate{missing: n, patience: patience}
	defer g.release()
	began := time.Now()
	all := make([]passing, len(at))
	var wg sync.WaitGroup
	for i, d := range at {
		slot := &slot{gate: g}
		wg.Go(func() {
			time.Sleep(max(d, -d))
			if d < 0 {
				slot.leave()
				return
			}
			all[i].came = time.Since(began)
			slot.pass(func() { all[i].sent = time.Since(began) })
			slot.leave() // as every request does in the end
		})
	}
	wg.Wait()
	return all
}

func TestGate(t *testing.T) {
	const s = time.Second
	f := func(name string, patience time.Duration, at, want []time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var sent []time.Duration
			for _, p := range throughGate(len(at), patience, at...) {
				sent = append(sent, p.sent)
			}
			if !slices.Equal(sent, want) {
				t.Errorf("%s: sent at %v, want %v", name, sent, want)
			}
		})
	}
	d := func(all ...time.Duration) []time.Duration { return all }
	f("alone", 10*s, d(2*s), d(2*s))
	f("all wait for the last", 10*s, d(1*s, 3*s, 2*s), d(3*s, 3*s, 3*s))
	f("one fails before", 10*s, d(1*s, -3*s, 2*s), d(3*s, 0, 3*s))
	f("all fail", 10*s, d(-1*s, -2*s), d(0, 0))
	f("one is late", 2*s, d(1*s, 9*s, 2*s), d(3*s, 9*s, 3*s))
	f("one fails late", 2*s, d(1*s, -9*s, 2*s), d(3*s, 0, 3*s))
}

// pipe is one end of a connection whose writes all succeed at once.
func pipe(t *testing.T) net.Conn {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	go func() {
		b := make([]byte, 64)
		for {
			if _, err := there.Read(b); err != nil {
				return
			}
		}
	}()
	return here
}

// A request that is ready 30 ms after it was issued, waits 5 s for others, and
// is answered 40 ms after it was sent, took 70 ms.
func TestWaitIsInNoDuration(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		g := &gate{missing: 2, patience: time.Minute}
		began := time.Now()
		held := 0
		a := (&Endpoint{cfg: &config.Endpoint{}}).newAttempt(nil)
		a.slot, a.onHold = &slot{gate: g}, func() { held++ }
		a.onReady = func() { held-- }
		c := &conn{Conn: pipe(t)}
		a.issue()
		a.connect(c)
		time.Sleep(10 * ms)
		a.step(&a.tlsStart, nil, "")
		time.Sleep(20 * ms)
		a.ready(c)
		if held != 1 {
			t.Errorf("held back %d times, want once", held)
		}
		time.AfterFunc(5*time.Second, (&slot{gate: g}).leave)
		if _, err := c.Write([]byte("POST")); err != nil {
			t.Fatal(err)
		}
		if held != 0 {
			t.Errorf("%d more times held back than let go", held)
		}
		time.Sleep(15 * ms)
		if _, err := c.Write([]byte("body")); err != nil { // waits for nothing
			t.Fatal(err)
		}
		time.Sleep(25 * ms)
		c.last = arrival{process: time.Now()}
		a.answered()
		line := newTimeline()
		line.end = a.now()
		line.events = []rawEvent{{instant: a.now(), tokens: 1, visible: true}}
		a.fill(&line)
		d := line.result(count(1)).Timing
		want := [result.NumPhases]time.Duration{
			result.PhaseDNS: result.Absent, result.PhaseConnect: 10 * ms, result.PhaseTLS: 20 * ms, result.PhaseWrite: 15 * ms, result.PhaseFirstByte: 25 * ms,
		}
		if d.Phases != want || d.Duration != 70*ms || d.TTFT != 40*ms {
			t.Errorf("phases %v, duration %s, TTFT %s; want %v, 70ms, 40ms", d.Phases, d.Duration, d.TTFT, want)
		}
		if got, want := a.sentAt(), began.Add(30*ms+5*time.Second); !got.Equal(want) {
			t.Errorf("sent %s after the beginning, want %s", got.Sub(began), want.Sub(began))
		}
		if got, want := a.start, began.Add(5*time.Second); !got.Equal(want) {
			t.Errorf("issued %s after the beginning, want %s", got.Sub(began), want.Sub(began))
		}
	})
}

// A pause is not counted, neither for what is waited for nor for the whole.
func TestWatchdogPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		fired := make(chan time.Duration, 1)
		w := newWatchdog(func(error) { fired <- time.Since(began) }, began.Add(3*time.Second), errFinished,
			began.Add(2*time.Second), errFinished)
		defer w.stop()
		time.Sleep(time.Second)
		w.pause()
		time.Sleep(10 * time.Second)
		select {
		case at := <-fired:
			t.Fatalf("fired after %s, in the pause", at)
		default:
		}
		w.resume()
		w.expect(time.Now().Add(time.Minute), errFinished)
		if got, want := <-fired, 13*time.Second; got != want {
			t.Errorf("fired after %s, want %s: the whole and the pause", got, want)
		}
	})
}

package prober

import (
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
)

// passing is a request at the gate: when it came, and when it was sent.
type passing struct{ came, sent time.Duration }

// throughGate sends requests that come at the given times, of n; negative ones
// fail then.
func throughGate(n int, patience time.Duration, at ...time.Duration) []passing {
	g := newGate(n, patience)
	defer g.release()
	began := time.Now()
	all := make([]passing, len(at))
	var wg sync.WaitGroup
	for i, d := range at {
		t := g.turn()
		wg.Go(func() {
			time.Sleep(max(d, -d))
			if d < 0 {
				t.leave()
				return
			}
			all[i].came = time.Since(began)
			t.pass(func() { all[i].sent = time.Since(began) })
			t.leave() // as every request does in the end
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
		g := newGate(2, time.Minute)
		began := time.Now()
		held := 0
		a := (&Endpoint{cfg: &config.Endpoint{}}).newAttempt(nil)
		a.turn, a.onHold = g.turn(), func() { held++ }
		a.onReady = func() { held-- }
		c := &conn{Conn: pipe(t)}
		a.issue()
		a.dialed(c)
		time.Sleep(10 * ms)
		a.step(&a.tlsStart, nil, "")
		time.Sleep(20 * ms)
		a.ready(c)
		if held != 1 {
			t.Errorf("held back %d times, want once", held)
		}
		time.AfterFunc(5*time.Second, g.turn().leave)
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
		d := line.result(count(1)).timing
		want := [result.NumPhases]time.Duration{
			result.PhaseDNS: result.Absent, result.PhaseConnect: 10 * ms, result.PhaseTLS: 20 * ms, result.PhaseWrite: 15 * ms, result.PhaseFirstByte: 25 * ms,
		}
		if d.Phases != want || d.Duration != 70*ms || d.TTFT != 40*ms {
			t.Errorf("phases %v, duration %s, TTFT %s; want %v, 70ms, 40ms", d.Phases, d.Duration, d.TTFT, want)
		}
		if got, want := a.sentAt(), began.Add(30*ms+5*time.Second); !got.Equal(want) {
			t.Errorf("sent %s after the beginning, want %s", got.Sub(began), want.Sub(began))
		}
		if got, want := a.issuedAt(), began.Add(5*time.Second); !got.Equal(want) {
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

package prober

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
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
	s := httptest.NewUnstartedServer(answer)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	var count atomic.Int64
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return nil, handshake(count.Add(1))
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	cfg := newEndpoint(t, s.URL)
	cfg.HTTP.TLSConfig.InsecureSkipVerify = true
	return cfg
}

func answerOne(w http.ResponseWriter, _ *http.Request) { events(w, one, stop, usage, endMarker) }

// Nothing is sent until the last connection is ready.
func TestBurstWaitsForConnections(t *testing.T) {
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
	results := newProber(t, cfg, newBurst(n)).all(t.Context(), time.Time{})
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
}

// A request that gets no connection is not waited for, and ends the run.
func TestBurstWithoutAConnection(t *testing.T) {
	cfg := secure(t, answerOne, func(i int64) error {
		if i == 3 { // the first of the second level is the second handshake
			return errors.New("refused")
		}
		return nil
	})
	m := newBurst(1, 4, 16)
	began := time.Now()
	results := newProber(t, cfg, m).all(t.Context(), time.Time{})
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

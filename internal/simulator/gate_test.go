package simulator

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestHang stops the engine in the middle of an answer. What runs stays as it
// is, what comes waits, the rest is answered; afterwards it goes on.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{DecodeStep: 20 * ms, PrefillTokensPerSecond: 1000}, false)
		defer v.stop()
		begin := time.Now()
		ended := make(map[string]time.Duration)
		var mu sync.Mutex
		var clients sync.WaitGroup
		ask := func(name, path, body string) {
			clients.Go(func() {
				if a := v.post(context.Background(), path, body, 1<<20); a.status != http.StatusOK || a.err != nil {
					t.Errorf("%s: status %d, %v", name, a.status, a.err)
				}
				mu.Lock()
				defer mu.Unlock()
				ended[name] = time.Since(begin)
			})
		}
		ask("running", "/v1/completions", `{"prompt":"x","max_tokens":10,"stream":true}`)
		time.Sleep(90 * ms) // tokens at 21, 41, 61 and 81 ms
		v.Hang(true)
		v.Hang(true)
		ask("waiting", "/v1/completions", `{"prompt":"y","max_tokens":1}`)
		ask("embedding", "/v1/embeddings", `{"input":"one"}`)
		synctest.Wait()
		before := v.State()
		if s := before[0]; s.Running != 1 || s.Waiting != 1 || s.GeneratedTokens != 4 || s.BlocksInUse != 1 {
			t.Errorf("at first: %+v", s)
		}
		time.Sleep(time.Hour)
		if d := cmp.Diff(before, v.State()); d != "" {
			t.Errorf("moved while it hung: %s", d)
		}
		if status, _ := v.get("/health"); status != http.StatusOK {
			t.Errorf("health: status %d", status)
		}
		want := wants(t, "vllm", pageOf(v, "/metrics"))
		want("vllm:num_requests_running", 1)
		want("vllm:generation_tokens_total", 4)
		if len(ended) != 0 {
			t.Errorf("ended while it hung: %v", ended)
		}

		v.Hang(false)
		clients.Wait()
		// The step at hand ends at once. The next has the prompt of the other,
		// of one token, beside the sixth of the first; then four more.
		at := time.Hour + 90*ms
		wantEnds := map[string]time.Duration{
			"embedding": at, "waiting": at + 21*ms + 100*time.Microsecond, "running": at + 101*ms + 100*time.Microsecond,
		}
		if d := cmp.Diff(wantEnds, ended); d != "" {
			t.Error(d)
		}
	})
}

// TestHangWhileIdle starts nothing of what comes.
func TestHangWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testReplica(nil)
		r.gate.set(true)
		q := start(t, r, promptOf(1, 100), 1)
		time.Sleep(time.Minute)
		if s := r.state(); s.Running != 0 || s.Waiting != 1 {
			t.Errorf("state %+v", s)
		}
		r.gate.set(false)
		begin := time.Now()
		if got := finished(q).Sub(begin); got != 120*ms {
			t.Errorf("ended %v after it went on, want 120ms", got)
		}
	})
}

// TestHungEngineEnds with its clients, and with Serve.
func TestHungEngineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine stays
		v := serve(t, Options{Slots: 1, Background: 3}, false)
		time.Sleep(time.Second)
		v.Hang(true)
		var clients sync.WaitGroup
		ask := func(path, body string) {
			clients.Go(func() {
				if a := v.post(context.Background(), path, body, 1<<20); a.err == nil {
					t.Errorf("%s ended without an error", path)
				}
			})
		}
		ask("/v1/completions", `{"prompt":"x","stream":true}`)
		ask("/v1/embeddings", `{"input":"one"}`)
		time.Sleep(time.Minute)
		begin := time.Now()
		v.stop()
		clients.Wait()
		if took := time.Since(begin); took > 0 {
			t.Errorf("ended only after %v", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := testReplica(nil)
		q := start(t, r, promptOf(1, 10), 100)
		r.gate.set(true)
		time.Sleep(time.Minute)
		r.abort(q)
		synctest.Wait()
		if r.looping {
			t.Error("the loop still runs")
		}
	})
}

func TestHangByHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{}, false)
		defer v.stop()
		f := func(query string, status int, hangs bool) {
			t.Helper()
			a := v.post(context.Background(), "/simulator/hang"+query, "", 1<<20)
			if got := v.gate.Load() != nil; a.status != status || got != hangs {
				t.Errorf("%q: status %d, hangs %v; want %d, %v", query, a.status, got, status, hangs)
			}
		}
		f("?on=true", http.StatusNoContent, true)
		f("?on=true", http.StatusNoContent, true)
		f("", http.StatusBadRequest, true)
		f("?on=maybe", http.StatusBadRequest, true)
		f("?on=false", http.StatusNoContent, false)
		f("?on=false", http.StatusNoContent, false)
	})
}

package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

func TestWatchdog(t *testing.T) {
	first, next, total := errors.New("first"), errors.New("next"), errors.New("total")
	f := func(name string, want error, after time.Duration, do func(w *watchdog, start time.Time)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				start := time.Now()
				w := newWatchdog(cancel, start.Add(10*time.Second), total, start.Add(2*time.Second), first)
				defer w.stop()
				do(w, start)
				<-ctx.Done()
				if got := context.Cause(ctx); !errors.Is(got, want) || time.Since(start) != after {
					t.Errorf("canceled by %v after %s, want %v after %s", got, time.Since(start), want, after)
				}
			})
		})
	}
	f("first limit", first, 2*time.Second, func(*watchdog, time.Time) {})
	f("next limit", next, 5*time.Second, func(w *watchdog, start time.Time) { w.expectNext(start.Add(5*time.Second), next) })
	f("total between tokens", total, 10*time.Second, func(w *watchdog, start time.Time) { w.expectNext(start.Add(time.Minute), next) })
	f("total before the first token", first, 10*time.Second, func(w *watchdog, start time.Time) { w.expect(start.Add(time.Minute), first) })
	f("total at the very limit", first, 10*time.Second, func(w *watchdog, start time.Time) { w.expect(start.Add(10*time.Second), first) })
	f("tokens move the limit on", next, 9*time.Second, func(w *watchdog, start time.Time) {
		w.expectNext(start.Add(3*time.Second), next)
		for range 3 {
			time.Sleep(2 * time.Second)
			w.extend(time.Now().Add(3 * time.Second))
		}
	})
	f("tokens do not move the total", total, 10*time.Second, func(w *watchdog, start time.Time) {
		w.expectNext(start.Add(3*time.Second), next)
		for range 4 {
			time.Sleep(2 * time.Second)
			w.extend(time.Now().Add(3 * time.Second))
		}
	})
}

func TestTimeouts(t *testing.T) {
	const short = model.Duration(50 * time.Millisecond)
	f := func(name string, want result.Outcome, wantErr string, limit func(*config.Module), sent ...string) {
		t.Run(name, func(t *testing.T) {
			testlab.Virtual(t, func(t *testing.T) {
				m := newModule()
				limit(m)
				s := chat(t, func(w http.ResponseWriter, r *http.Request) {
					// Without it the server does not notice that the client left.
					io.Copy(io.Discard, r.Body)
					if len(sent) > 0 {
						events(w, sent...)
					}
					<-r.Context().Done()
				})
				r := newProber(t, newEndpoint(t, s.URL), m).one(testlab.Context(t), time.Time{})
				if r.Outcome != want || (wantErr != "" && !strings.Contains(fmt.Sprint(r.Err), wantErr)) {
					t.Errorf("outcome %s (%v), want %s (...%s...)", r.Outcome, r.Err, want, wantErr)
				}
				// Our own wait for an end marker is no time of the server's.
				if r.Outcome == result.Success && r.Timing.Phases[result.PhaseClose] >= finishGrace {
					t.Errorf("close took %s", r.Timing.Phases[result.PhaseClose])
				}
			})
		})
	}
	f("headers", result.TimeoutFirstToken, "no response headers within 50ms", func(m *config.Module) { m.Timeouts.Headers = short })
	f("first token", result.TimeoutFirstToken, "no first token within 50ms", func(m *config.Module) { m.Timeouts.FirstToken = short }, role)
	f("stall", result.TimeoutStall, "no token for 50ms", func(m *config.Module) { m.Timeouts.Stall = short }, role, one)
	f("headers, at the total", result.TimeoutFirstToken, "no response headers", func(m *config.Module) { m.Timeouts.Headers, m.Timeout = short, short })
	f("first token, at the total", result.TimeoutFirstToken, "no first token", func(m *config.Module) { m.Timeouts.FirstToken, m.Timeout = short, short }, role)
	f("total", result.TimeoutTotal, "not finished within 50ms", func(m *config.Module) { m.Timeout = short }, role, one)
	f("open after the finish reason", result.Success, "", func(m *config.Module) {}, role, one, stop)
}

// Pings are no tokens: they must not keep a dead answer alive.
func TestCommentsDoNotMoveTheTokenLimit(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		m := newModule()
		m.Timeouts.FirstToken = model.Duration(50 * time.Millisecond)
		s := chat(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			for ; r.Context().Err() == nil; time.Sleep(time.Millisecond) {
				io.WriteString(w, ": keep-alive\n\n")
				w.(http.Flusher).Flush()
			}
		})
		r := newProber(t, newEndpoint(t, s.URL), m).one(testlab.Context(t), time.Time{})
		if r.Outcome != result.TimeoutFirstToken {
			t.Errorf("outcome %s (%v), want %s", r.Outcome, r.Err, result.TimeoutFirstToken)
		}
	})
}

// TestKeepAlivesAlone has replies that keep the connection open and then end.
func TestKeepAlivesAlone(t *testing.T) {
	f := func(body string, want result.Outcome) {
		t.Helper()
		url := chat(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, body)
		}).URL
		if r := newProber(t, newEndpoint(t, url), newModule()).one(t.Context(), time.Time{}); r.Outcome != want {
			t.Errorf("%.30q: outcome %s (%v), want %s", body, r.Outcome, r.Err, want)
		}
	}
	f(": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n", result.Empty)
	f(strings.Repeat(": ping\n\n", 1000), result.Empty)
	f("retry: 3000\n\nevent: ping\n\n", result.Empty)
	f(": ping\n\n"+`{"error":{"message":"boom","code":500}}`, result.StreamError)
	f(": ping\n\n<html>", result.ProtocolError)
}

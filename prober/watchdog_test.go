package prober

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
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

package api

import (
	"net/http"
	"testing"
	"time"
)

func TestRateLimitFrom(t *testing.T) {
	f := func(requests, tokens string, want RateLimit) {
		t.Helper()
		h := http.Header{}
		if requests != "" {
			h.Set("x-ratelimit-remaining-requests", requests)
		}
		if tokens != "" {
			h.Set("x-ratelimit-remaining-tokens", tokens)
		}
		if got := RateLimitFrom(h); got != want {
			t.Errorf("%q, %q: %+v, want %+v", requests, tokens, got, want)
		}
	}
	f("", "", RateLimit{Unknown, Unknown})
	f("59", "149984", RateLimit{59, 149984})
	f("0", " 180000000 ", RateLimit{0, 180000000})
	f("-1", "many", RateLimit{Unknown, Unknown})
	f("1.5", "99999999999999999999", RateLimit{Unknown, Unknown})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	f := func(after, afterMs string, want time.Duration) {
		t.Helper()
		h := http.Header{}
		h.Set("Retry-After", after)
		h.Set("Retry-After-Ms", afterMs)
		if got := RetryAfter(h, now); got != want {
			t.Errorf("%q, %q: %v, want %v", after, afterMs, got, want)
		}
	}
	if got := RetryAfter(http.Header{}, now); got >= 0 {
		t.Errorf("no header: %v, want a negative duration", got)
	}
	f("7", "", 7*time.Second)
	f(" 0.25 ", "", 250*time.Millisecond)
	f("7", "1500", 1500*time.Millisecond)
	f("7", "soon", 7*time.Second)
	f("0", "", 0)
	f("Sat, 21 Nov 2026 12:00:30 GMT", "", 30*time.Second)
	f("Saturday, 21-Nov-26 12:00:30 GMT", "", 30*time.Second)
	f("Sat, 21 Nov 2026 11:59:30 GMT", "", 0)
	f("Sat, 21 Nov 2099 12:00:00 GMT", "", 24*time.Hour)
	f("1e300", "", 24*time.Hour)
	f("inf", "", 24*time.Hour)
	f("-1", "", -1)
	f("NaN", "nan", -1)
	f("tomorrow", "-5", -1)
}

package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what a server may ask: it shall not silence its own
// probes for longer.
const maxRetryAfter = 24 * time.Hour

// RateLimitFrom reads the quota left from the headers of a reply,
// x-ratelimit-remaining-requests and x-ratelimit-remaining-tokens.
func RateLimitFrom(h http.Header) RateLimit {
	return RateLimit{
		Requests: remaining(h.Get("X-Ratelimit-Remaining-Requests")),
		Tokens:   remaining(h.Get("X-Ratelimit-Remaining-Tokens")),
	}
}

// remaining reads a quota; Unknown is anything but a whole number from 0 on.
func remaining(s string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 0 {
		return Unknown
	}
	return n
}

// RetryAfter returns how long a reply asks to wait, 24 h at most: by
// Retry-After-Ms, else by Retry-After in seconds, whole or not, or as a date
// (RFC 9110, 10.2.3), of which the past is 0. Negative is absent.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if d := wait(h.Get("Retry-After-Ms"), time.Millisecond); d >= 0 {
		return d
	}
	after := strings.TrimSpace(h.Get("Retry-After"))
	if d := wait(after, time.Second); d >= 0 {
		return d
	}
	if date, err := http.ParseTime(after); err == nil {
		return min(max(date.Sub(now), 0), maxRetryAfter)
	}
	return -1
}

// wait reads a number of units; -1 is anything but a number from 0 on.
func wait(s string, unit time.Duration) time.Duration {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(n >= 0) {
		return -1
	}
	return time.Duration(min(n*float64(unit), float64(maxRetryAfter)))
}

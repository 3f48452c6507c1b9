package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// noUsage is a Usage that reports nothing.
func noUsage() Usage {
	return Usage{Prompt: Unknown, Cached: Unknown, Output: Unknown, Reasoning: Unknown}
}

// known returns the first value that is not negative, else -1.
func known[T ~int | ~int64](values ...T) T {
	for _, v := range values {
		if v >= 0 {
			return v
		}
	}
	return -1
}

// promptOf adds up the parts of a prompt that a server counts apart: those that came from the cache
// or went into it, which may be missing, and the rest.
func promptOf(rest int, cached ...int) int {
	sum := rest
	for _, n := range cached {
		sum += max(n, 0)
	}
	if rest == Unknown || sum > maxCount {
		return Unknown
	}
	return sum
}

// joinReasoning makes Output include Reasoning where the server counts it apart, by total, its count of prompt
// and output together, or the usual way of the protocol. Of chat completions, xAI's count it apart.
func (u *Usage) joinReasoning(total int, usuallyApart bool) {
	if u.Reasoning <= 0 || u.Output == Unknown {
		return
	}
	apart, sum := usuallyApart, u.Output+u.Reasoning
	if u.Prompt >= 0 {
		switch total {
		case u.Prompt + sum:
			apart = true
		case u.Prompt + u.Output:
			apart = false
		}
	}
	switch {
	case apart && sum > maxCount:
		u.Output = Unknown
	case apart:
		u.Output = sum
	}
}

// Tally folds the usages of one reply, which are running totals: the last report of each count wins. A zero never
// replaces a positive count, as some servers send zeros on every frame but one.
type Tally Usage

// NewTally returns the Tally of a reply that has reported nothing yet.
func NewTally() Tally { return Tally(noUsage()) }

// Add takes the usage of the next frame, which may be nil.
func (t *Tally) Add(u *Usage) {
	if u == nil {
		return
	}
	fold := func(old *int, new int) {
		if new > 0 || new == 0 && *old <= 0 {
			*old = new
		}
	}
	fold(&t.Prompt, u.Prompt)
	fold(&t.Cached, u.Cached)
	fold(&t.Output, u.Output)
	fold(&t.Reasoning, u.Reasoning)
}

// Usage returns the counts of the reply. A part that exceeds its known whole
// is Unknown: such a server contradicts itself.
func (t *Tally) Usage() Usage {
	u := Usage(*t)
	if u.Prompt >= 0 && u.Cached > u.Prompt {
		u.Cached = Unknown
	}
	if u.Output >= 0 && u.Reasoning > u.Output {
		u.Reasoning = Unknown
	}
	return u
}

// runningCount makes Delta.Tokens of the counts of a server that counts along,
// and of none that reports its count at the end, or zeros until then.
type runningCount struct {
	last    int
	hidden  int  // reasoning that is part of the count and left no event
	reasons bool // reasoning is streamed
	counted bool // a frame carried a count
	broken  bool // a frame with material carried none, or a count fell
}

// next returns Delta.Tokens for a frame that may carry a token, given what the
// server counts of the output so far and of the reasoning in it.
func (r *runningCount) next(output, reasoning int, d *Delta) int {
	streamed := len(d.Reasoning) > 0 && !d.Summary
	if r.reasons = r.reasons || streamed; !r.reasons {
		r.hidden = max(r.hidden, reasoning)
	}
	n := max(Unknown, output-r.hidden)
	token := d.Visible() || streamed
	if token && n <= 0 || n != Unknown && n < r.last {
		r.broken = true
	}
	if r.broken || n == Unknown {
		return Unknown
	}
	// The first count of all may be the total on the last frame, unless material comes with it.
	hasCount := token || r.counted
	r.last, r.counted = n, true
	if !hasCount {
		return Unknown
	}
	return n
}

// maxRetryAfter bounds what a server may ask: it shall not silence its own probes for longer.
const maxRetryAfter = 24 * time.Hour

// RateLimitFrom reads the quota left from the headers of a reply: Anthropic's own or, where there
// are none, x-ratelimit-remaining-requests and x-ratelimit-remaining-tokens. Of Anthropic's quotas
// of tokens the tightest counts: that of all tokens, or of those of prompts and of answers.
func RateLimitFrom(h http.Header) RateLimit {
	own := RateLimit{Requests: remaining(h.Get("Anthropic-Ratelimit-Requests-Remaining")), Tokens: Unknown}
	for _, of := range []string{"Tokens", "Input-Tokens", "Output-Tokens"} {
		n := remaining(h.Get("Anthropic-Ratelimit-" + of + "-Remaining"))
		if n != Unknown && (own.Tokens == Unknown || n < own.Tokens) {
			own.Tokens = n
		}
	}
	if own != (RateLimit{Unknown, Unknown}) {
		return own
	}
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

// RetryAfter returns how long a reply asks to wait, 24 h at most: by Retry-After-Ms, else by Retry-After in
// seconds or as a date (RFC 9110, 10.2.3), of which the past is 0. Negative is absent.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if d := wait(h.Get("Retry-After-Ms"), time.Millisecond); d >= 0 {
		return d
	}
	after := strings.TrimSpace(h.Get("Retry-After"))
	if after == "" {
		return -1
	}
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

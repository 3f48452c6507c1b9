package result

import (
	"strings"
	"testing"
	"time"
)

// TestDescription wants words of its own for every outcome of a failure, none of
// them a label value.
func TestDescription(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Outcomes() {
		text := o.Description()
		if seen[text] || strings.Contains(text, "_") || text == "" {
			t.Errorf("%s: %q", o, text)
		}
		seen[text] = true
	}
}

// TestAdvice wants advice after every failure, and none after a success.
// TestAdviceOfTheSameOutcome checks that a request that was not sent is not called sent, and
// a full queue no quota.
func TestAdviceOfTheSameOutcome(t *testing.T) {
	unasked, asked := &Result{Outcome: TimeoutFirstToken}, &Result{Outcome: TimeoutFirstToken, Sent: time.Unix(1, 0)}
	if a := unasked.Advice(); !strings.Contains(a, "did not say what it serves") {
		t.Errorf("not identified: %s", a)
	}
	quota, queue := &Result{Outcome: RateLimited, Engine: "vllm"}, &Result{Outcome: RateLimited, Engine: "tgi"}
	if a, b := quota.Advice(), queue.Advice(); !strings.Contains(a, "higher quota") || !strings.HasPrefix(b, "The queue of the server is full") {
		t.Errorf("status 429: %s\n%s", a, b)
	}
	if a := asked.Advice(); !strings.HasPrefix(a, "The request arrived") {
		t.Errorf("asked: %s", a)
	}
}

func TestAdvice(t *testing.T) {
	for _, o := range Outcomes() {
		for _, status := range []int{0, 200, 302, 400, 404, 405, 407, 418, 422, 500, 502, 504} {
			r := &Result{Outcome: o, Status: status}
			if a := r.Advice(); (a == "") != (o == Success) {
				t.Errorf("%s with status %d: advice %q", o, status, a)
			}
		}
	}
}

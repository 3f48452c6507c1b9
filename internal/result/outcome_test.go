package result

import (
	"strings"
	"testing"
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

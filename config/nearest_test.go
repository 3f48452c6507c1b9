package config

import "testing"

// The number of edits of the usual examples of the literature.
func TestEdits(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"kitten", "sitting", 3},
		{"saturday", "sunday", 3},
		{"flaw", "lawn", 2},
		{"queue", "queue", 0},
	} {
		if got := edits(tt.a, tt.b); got != tt.want {
			t.Errorf("edits(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"requests_running", "requests_waiting", "kv_cache_usage_ratio", "ttft"}
	if got, want := nearest("request_waiting", known), "requests_waiting, requests_running, ttft"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := nearest("running", known), "requests_running, ttft, requests_waiting"; got != want {
		t.Errorf("got %s, want %s: a name that contains the word first", got, want)
	}
	if got := nearest("x", known[:1]); got != "requests_running" {
		t.Errorf("got %s of one", got)
	}
}

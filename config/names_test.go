package config

import (
	"slices"
	"strings"
	"testing"
)

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

func TestNames(t *testing.T) {
	known := []string{"requests_running", "requests_waiting", "kv_cache_usage_ratio", "ttft"}
	f := func(word string, want ...string) {
		t.Helper()
		if got := NearestNames(word, known, len(want)); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
	f("request_waiting", "requests_waiting", "requests_running", "ttft")
	f("running", "requests_running", "ttft", "requests_waiting") // a name that contains the word first
	if got := NearestNames("x", known[:1], 3); !slices.Equal(got, known[:1]) {
		t.Errorf("got %q of one", got)
	}
}

func TestHint(t *testing.T) {
	f := func(word string, known []string, want string) {
		t.Helper()
		if got := Hint(word, "known here", known); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
	f("modle", []string{"api", "model"}, `; did you mean "model"?`)
	f("steam", []string{"api", "model"}, "; known here: api, model")
	f("steam", slices.Repeat([]string{"a"}, 26), "; known here: a"+strings.Repeat(", a", 24)+", ...")
}

func TestGuess(t *testing.T) {
	known := []string{"serve", "check", "demo", "probe", "detect", "man", "--config.file", "--web.config.file", "--log.level", "--version"}
	for word, want := range map[string]string{
		"prob": "probe", "dmeo": "demo", "cheque": "check", "serv": "serve", "version": "--version",
		"--config": "--config.file", "--config-file": "--config.file", "--loglevel": "--log.level", "detekt": "detect",
		"": "", "x": "", "fly": "", "--colour": "", "start": "", "kubernetes": "", "llama-prod": "",
	} {
		if got := Guess(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	if got := Guess("word", nil); got != "" {
		t.Errorf("got %q of none", got)
	}
}

package main

import (
	"slices"
	"testing"
)

// TestKeep runs one check again: the others stay, in the order of the scenarios.
func TestKeep(t *testing.T) {
	s := &server{apis: []string{"openai-chat"}, slots: 4}
	before := &evidence{Version: "1", Checks: []check{{"detect", holds, "a"}, {"knee of bursts", fails, "b"}, {"end-to-end check", holds, "c"}}}
	f := func(version string, want ...check) {
		t.Helper()
		e := &evidence{Version: version, Checks: []check{{"knee of bursts", holds, "d"}}}
		if e.keep(before, s); !slices.Equal(e.Checks, want) {
			t.Errorf("version %s: %v, want %v", version, e.Checks, want)
		}
	}
	f("1", check{"detect", holds, "a"}, check{"knee of bursts", holds, "d"}, check{"end-to-end check", holds, "c"})
	f("2", check{"knee of bursts", holds, "d"})
}

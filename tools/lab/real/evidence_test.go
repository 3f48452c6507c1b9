package main

import (
	"slices"
	"testing"
)

// TestKeep runs one check again: the others stay, with their date, in the order of the scenarios.
func TestKeep(t *testing.T) {
	s := &server{apis: []string{"openai-chat"}, slots: 4}
	before := &evidence{Version: "1", Date: "2026-11-22", Checks: []check{
		{Name: "detect", Result: holds, Detail: "a"}, {Name: "knee of bursts", Result: fails, Detail: "b"}, {Name: "end-to-end check", Result: holds, Detail: "c"},
	}}
	f := func(version, date string, want ...check) {
		t.Helper()
		e := &evidence{Version: version, Date: "2026-11-26", Checks: []check{{Name: "knee of bursts", Result: holds, Detail: "d"}}}
		if e.keep(before, s); !slices.Equal(e.Checks, want) || e.Date != date {
			t.Errorf("version %s: %s, %v, want %s, %v", version, e.Date, e.Checks, date, want)
		}
	}
	f("1", "2026-11-22",
		check{Name: "detect", Result: holds, Detail: "a"}, check{Name: "knee of bursts", Result: holds, Detail: "d", Date: "2026-11-26"},
		check{Name: "end-to-end check", Result: holds, Detail: "c"})
	f("2", "2026-11-26", check{Name: "knee of bursts", Result: holds, Detail: "d"})
}

package main

import (
	"os"
	"strings"
	"testing"
)

const changelog = `# Changelog

## [Unreleased]

## [0.2.0] - 2026-11-30

### Added

- A thing, see [1.0].

## [0.1.0] - 2026-11-01

- The first.

[0.2.0]: https://example.org/compare
`

func TestNotes(t *testing.T) {
	f := func(version, want, wantErr string) {
		t.Helper()
		got, err := notes(changelog, version)
		if got != want || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%s: got %q, %v", version, got, err)
		}
	}
	f("0.2.0", "### Added\n\n- A thing, see [1.0].", "")
	f("v0.1.0", "- The first.", "")
	f("0.3.0", "", "no part for version 0.3.0")
	f("0.2", "", "no part for version 0.2")
	f("0x2.0", "", "no part")
	f("Unreleased", "", "says nothing")
}

// What comes next is written as it is made, so there is always such a part.
func TestChangelogOfThisRepository(t *testing.T) {
	text, err := os.ReadFile(root + "CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := notes(string(text), "Unreleased"); err != nil {
		t.Error(err)
	}
}

package main

import (
	"regexp"
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

// What is next is written as it is made: there is always a place for it, and the newest
// version has notes.
func TestChangelogOfThisRepository(t *testing.T) {
	text := read(t, "CHANGELOG.md")
	if !strings.Contains(text, "\n## [Unreleased]\n") {
		t.Error("the changelog has no part Unreleased")
	}
	if _, err := notes(text, newestVersion(t)); err != nil {
		t.Error(err)
	}
}

// What names a version of the program names the newest.
func TestVersions(t *testing.T) {
	version := regexp.MustCompile(`(?m)(?:^appVersion: "|inference_exporter:|newTag: )(\d[^"\s]*)"?$`)
	for _, name := range []string{
		"examples/helm/inference-exporter/Chart.yaml", "examples/kubernetes/base/statefulset.yml", "examples/kubernetes/gpu/gpu-daemonset.yml",
		"examples/kubernetes/example/kustomization.yml", "examples/gates/github-actions.yml", "examples/gates/gitlab-ci.yml",
	} {
		found := version.FindAllStringSubmatch(read(t, name), -1)
		if len(found) == 0 {
			t.Errorf("%s names no version", name)
		}
		for _, m := range found {
			if want := newestVersion(t); m[1] != want {
				t.Errorf("%s names version %s, want %s", name, m[1], want)
			}
		}
	}
}

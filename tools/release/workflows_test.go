package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
)

// TestWorkflows has actionlint check the workflows, and pins what they use: actions by commit, tools by version.
func TestWorkflows(t *testing.T) {
	names, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(names) < 2 {
		t.Fatalf("%d workflows: %v", len(names), err)
	}
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mistakes, err := linter.LintFiles(names, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mistakes {
		t.Errorf("%s", m.Error())
	}
	uses := regexp.MustCompile(`(?m)uses: (\S+)(.*)$`)
	pinned := regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			if !pinned.MatchString(m[1]) || !strings.HasPrefix(m[2], " # v") {
				t.Errorf("%s: %s is not pinned by its commit, with its version in a comment", name, m[1])
			}
		}
	}
	workflow := read(t, ".github/workflows/release.yml")
	check := read(t, "tools/release/check.sh")
	version := regexp.MustCompile(`(?m)^version=(\S+)$`).FindStringSubmatch(check)
	if version == nil || !strings.Contains(workflow, "goreleaser/v2@"+version[1]+"\n") {
		t.Errorf("the release is made by another goreleaser than %v, which check.sh tries", version)
	}
}

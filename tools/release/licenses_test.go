package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLicences holds the list in docs to the modules that are linked.
func TestLicences(t *testing.T) {
	document := filepath.Join(t.TempDir(), "licences.md")
	if err := run([]string{"licences", document}, nil); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), read(t, "docs/licences.md")); diff != "" {
		t.Errorf("docs/licences.md is not current; run: go run -C tools/release . licences ../../docs/licences.md\n%s", diff)
	}
}

// TestLicencesOf checks that what is not allowed, unknown or missing is an error.
func TestLicencesOf(t *testing.T) {
	f := func(name, text string, ok bool) {
		t.Helper()
		dir := t.TempDir()
		if name != "" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		licences, err := licencesOf(dir)
		if err == nil {
			err = refuse(licences)
		}
		if (err == nil) != ok {
			t.Errorf("%s: %v, %v", name, licences, err)
		}
	}
	apache := read(t, "LICENSE")
	f("LICENSE", apache, true)
	f("LICENCE.txt", apache, true)
	f("LICENSE", "You may use this on Sundays.", false)
	f("README", apache, false)
	f("", "", false)
	if err := refuse([]string{"MIT", "AGPL-3.0"}); err == nil {
		t.Error("AGPL-3.0 is allowed")
	}
}

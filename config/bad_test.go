package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const badGolden = "testdata/bad.golden"

// badFile is a file with mistakes.
type badFile struct{ name, text string }

// readBadFiles returns the files in the golden: each is a line "=== name", its text, and
// a line "=> line: path: message" for each mistake.
func readBadFiles(t testing.TB) []badFile {
	t.Helper()
	data, err := os.ReadFile(badGolden)
	if err != nil {
		t.Fatal(err)
	}
	var all []badFile
	for _, section := range strings.Split("\n"+string(data), "\n=== ")[1:] {
		name, rest, _ := strings.Cut(section, "\n")
		text, _, _ := strings.Cut("\n"+rest, "\n=> ")
		all = append(all, badFile{name, strings.TrimPrefix(text, "\n") + "\n"})
	}
	return all
}

// TestBadFiles holds the mistakes of each bad file, of which none repeats a password.
func TestBadFiles(t *testing.T) {
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	var got strings.Builder
	for _, file := range readBadFiles(t) {
		name := "testdata/" + file.name + ".yml"
		_, err := Parse([]byte(file.text), name)
		if err == nil {
			t.Errorf("%s: no error", file.name)
			continue
		}
		got.WriteString("=== " + file.name + "\n" + file.text)
		for line := range strings.Lines(err.Error() + "\n") {
			got.WriteString("=> " + strings.ReplaceAll(strings.TrimPrefix(line, name), dir, "$DIR"))
		}
		got.WriteString("\n")
		if strings.Contains(strings.ReplaceAll(err.Error(), "password", ""), "pass") {
			t.Errorf("%s: the error has the password: %v", file.name, err)
		}
	}
	golden(t, badGolden, got.String())
}

// golden compares got with a file, which -update writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not current; run: go test ./config -update\n%s", name, diff)
	}
}

package app

import (
	"os"
	"strings"
	"testing"
)

// A file that may be half written is refused, and taken when it is loaded again as it is.
func TestHalfWrittenFile(t *testing.T) {
	const (
		one  = "endpoints:\n  - {url: http://one.example:8000}\n"
		both = one + "  - {url: http://two.example:8000}\n"
		half = "the file may be half written"
	)
	f := func(name string, contents []string, want ...string) {
		t.Helper()
		s, file := new(source), writeFile(t, "exporter.yml", "")
		for i, text := range contents {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			switch _, err := s.load(file); {
			case want[i] == "" && err != nil:
				t.Errorf("%s, load %d: %v", name, i, err)
			case want[i] != "" && (err == nil || !strings.Contains(err.Error(), want[i])):
				t.Errorf("%s, load %d: %v, want %q", name, i, err, want[i])
			}
		}
	}
	f("between two endpoints", []string{both, one, both, one, one, both}, "", ":2: "+half, "", half, "", "")
	f("another half", []string{both, one, "endpoints:\n  - {url: http://three.example:8000}\n", "", one}, "", half, "", "endpoints", "")
	f("in the middle of a port", []string{both, "endpoints:\n  - url: http://three.example:80", "endpoints:\n  - url: http://three.example:80"}, "", half, "")
	f("without the end of the last line, as before", []string{strings.TrimSpace(both), strings.Replace(strings.TrimSpace(both), "two", "three", 1)}, "", "")
	f("blank lines at the end removed", []string{both + "\n\n", both, strings.TrimSpace(both)}, "", "", half)
	f("an endpoint of the middle removed", []string{both, "endpoints:\n  - {url: http://two.example:8000}\n"}, "", "")
	f("whole at the start", []string{one}, "")
}

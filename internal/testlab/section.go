package testlab

import (
	"os"
	"strings"
	"testing"
)

// Section holds the part of a document between the comments <!-- NAME --> and
// <!-- end of NAME --> to a text, or rewrites it.
func Section(t *testing.T, file, name, want string, rewrite bool) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(string(data), begin)
	got, after, closed := strings.Cut(rest, end)
	switch {
	case !ok || !closed:
		t.Fatalf("%s has no part %s", file, name)
	case got == want:
	case rewrite:
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: the part %s is not current; -update rewrites it. Want:\n%s", file, name, want)
	}
}

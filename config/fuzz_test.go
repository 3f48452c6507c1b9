package config

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzParse checks that no input panics, and that what is accepted prints as
// a file that means the same.
func FuzzParse(f *testing.F) {
	setEnv(f)
	bad, err := filepath.Glob("testdata/*.bad.yml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range append(bad, goodFiles(f)...) {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, "testdata/fuzz.yml")
		if (c == nil) != (err != nil) {
			t.Fatalf("got %v and %v", c, err)
		}
		if err == nil {
			checkRoundTrip(t, c, "testdata/fuzz.yml")
		}
	})
}

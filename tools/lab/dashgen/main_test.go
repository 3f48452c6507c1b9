package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the dashboards")

const (
	folder    = "../../../dashboards"
	rulesFile = "../../../alerts/recording.yml"
)

// The dashboards in the repository are those that the program writes, and it
// writes the same ones every time.
func TestDashboardsAreCurrent(t *testing.T) {
	if *update {
		if err := write(folder, rulesFile); err != nil {
			t.Fatal(err)
		}
	}
	want, err := generate(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	again, err := generate(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range want {
		if !bytes.Equal(text, again[name]) {
			t.Errorf("%s differs from one run to the next", name)
		}
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(text, got) {
			t.Errorf("%s is not what the program writes; rewrite it: go test . -update", name)
		}
	}
	found, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if want[filepath.Base(f)] == nil {
			t.Errorf("%s is no dashboard of this program", f)
		}
	}
}

func TestNothingIsWrittenWhereRulesAreMissing(t *testing.T) {
	out := t.TempDir()
	if err := write(out, filepath.Join(out, "none.yml")); err == nil {
		t.Error("no error without the recording rules")
	}
	if found, _ := filepath.Glob(filepath.Join(out, "*.json")); len(found) > 0 {
		t.Errorf("wrote %v", found)
	}
}

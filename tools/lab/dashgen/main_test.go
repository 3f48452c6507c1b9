package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

const (
	folder      = "../../../dashboards"
	rulesFolder = "../../../alerts"
)

// The dashboards in the repository are those that the program writes.
func TestDashboardsAreCurrent(t *testing.T) {
	want, err := generate(rulesFolder)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(text, got) {
			t.Errorf("%s is not what the program writes; rewrite it: go run .", name)
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

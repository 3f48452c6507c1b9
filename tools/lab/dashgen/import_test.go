package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is imported by hand is what is provisioned, but for what asks for the data source.
func TestForImport(t *testing.T) {
	folder := t.TempDir()
	if err := writeForImport(folder, "../../../alerts"); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("../../../dashboards/*.json")
	if err != nil || len(names) != len(boards()) {
		t.Fatalf("%d dashboards: %v", len(names), err)
	}
	for _, name := range names {
		read := func(name string) (board map[string]any, text string) {
			data, err := os.ReadFile(name)
			if err == nil {
				err = json.Unmarshal(data, &board)
			}
			if err != nil {
				t.Fatal(err)
			}
			return board, string(data)
		}
		want, _ := read(name)
		got, text := read(filepath.Join(folder, filepath.Base(name)))
		inputs := got["__inputs"].([]any)
		if in := inputs[0].(map[string]any); len(inputs) != 1 || in["type"] != "datasource" || in["pluginId"] != "prometheus" {
			t.Errorf("%s: inputs %v", name, inputs)
		}
		if n := strings.Count(text, "${DS_PROMETHEUS}"); n != 2 {
			t.Errorf("%s: the input is used %d times", name, n)
		}
		if id, ok := got["id"]; !ok || id != nil {
			t.Errorf("%s: id %v", name, id)
		}
		for _, key := range []string{"__inputs", "__requires", "id"} {
			delete(got, key)
		}
		for _, v := range got["templating"].(map[string]any)["list"].([]any) {
			if variable := v.(map[string]any); variable["type"] == "datasource" {
				delete(variable, "current")
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-provisioned +imported)\n%s", name, diff)
		}
	}
}

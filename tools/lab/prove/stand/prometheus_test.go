package stand

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fake returns a program that does what a shell script says.
func fake(t *testing.T, script string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "prometheus")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestStartPrometheus(t *testing.T) {
	p, err := StartPrometheus(t.Context(), PrometheusOptions{Program: fake(t, `
		echo 'time=x level=INFO msg="Listening on" component=web address=127.0.0.1:9' >&2
		exec sleep 60`)})
	if err != nil {
		t.Fatal(err)
	}
	if p.Base != "http://127.0.0.1:9" {
		t.Errorf("it listens on %s", p.Base)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.dir); !os.IsNotExist(err) {
		t.Errorf("its data are still there: %v", err)
	}
}

func TestStartPrometheusFails(t *testing.T) {
	for name, program := range map[string]string{
		"ends":    fake(t, "exit 1"),
		"missing": filepath.Join(t.TempDir(), "nothing"),
	} {
		if _, err := StartPrometheus(t.Context(), PrometheusOptions{Program: program}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestConfig has the two settings of histograms, and rules without a pace of
// their own.
func TestConfig(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "a.yml")
	if err := os.WriteFile(rules, []byte("groups: [{name: g, interval: 5m, rules: [{record: a, expr: b}]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, err := writeConfig(dir, PrometheusOptions{
		Native: true, Rules: []string{rules}, Targets: []Target{{Address: "a:1", Instance: "b:2"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"scrape_native_histograms: true", "instance: b:2", "- a:1", filepath.Join(dir, "a.yml")} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	text, err = os.ReadFile(filepath.Join(dir, "a.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "interval") || !strings.Contains(string(text), "record: a") {
		t.Errorf("rules: %s", text)
	}
}

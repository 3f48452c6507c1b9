package app

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/alecthomas/kingpin/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/cli"
)

// described is the command line as this program parses it, without what is hidden.
func described() *kingpin.ApplicationModel {
	app := newCommandLine(Options{Stdout: io.Discard, Stderr: io.Discard}).app
	m := app.Model()
	m.Commands = slices.DeleteFunc(m.Commands, func(c *kingpin.CmdModel) bool { return c.Hidden || c.Name == "help" })
	return m
}

// TestReference holds docs/commands.md and the manual page to the command line.
func TestReference(t *testing.T) {
	notes := cli.ReadNotes()
	page, err := template.New("commands.md.tmpl").Funcs(template.FuncMap{
		"cell": func(s string) string { return strings.ReplaceAll(s, "|", `\|`) },
		"note": func(name string) any { return notes.Commands[name] },
	}).ParseFiles("testdata/commands.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var commands bytes.Buffer
	if err := page.Execute(&commands, struct {
		App   *kingpin.ApplicationModel
		Notes cli.Notes
	}{described(), notes}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"../../docs/commands.md":          commands.String(),
		"../../docs/inference_exporter.1": runToEnd(t, "man").stdout,
	} {
		if *update {
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is not current; run: go test ./internal/app -run TestReference -update\n%s", name, diff)
		}
	}
}

// The judge is mandoc, where there is one.
func TestManPageIsClean(t *testing.T) {
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("mandoc is not installed")
	}
	cmd := exec.Command(mandoc, "-T", "lint", "-W", "warning")
	cmd.Stdin = strings.NewReader(runToEnd(t, "man").stdout)
	out, _ := cmd.CombinedOutput() // its exit code depends on the date too
	for line := range strings.Lines(string(out)) {
		// A date would make the page differ from one day to the next.
		if !strings.Contains(line, "WARNING: missing date") {
			t.Error(line)
		}
	}
}

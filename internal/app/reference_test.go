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

// Every command is explained, and every example is a command line that parses and is in the
// help of the command.
func TestEveryCommandIsExplained(t *testing.T) {
	notes := cli.ReadNotes().Commands
	for _, c := range described().Commands {
		if notes[c.Name].Text == "" || len(notes[c.Name].Examples) == 0 {
			t.Errorf("%s has no text or no example", c.Name)
		}
		help := runToEnd(t, c.Name, "--help").stdout
		for _, e := range notes[c.Name].Examples {
			checkExample(t, c.Name, e.Line, e.Purpose)
			if !strings.Contains(help, "\n  # "+e.Purpose+"\n  "+e.Line+"\n") {
				t.Errorf("%q is not in the help of %s", e.Line, c.Name)
			}
		}
	}
}

func checkExample(t *testing.T, command, line, purpose string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " && ")
	words := strings.Fields(line)
	if words[0] != "inference_exporter" || !strings.HasSuffix(purpose, ".") {
		t.Errorf("%s: %q: %q", command, line, purpose)
	}
	parser := newCommandLine(Options{Stdout: io.Discard, Stderr: io.Discard})
	got, _, err := parser.parse(words[1:])
	if err != nil || got != parser.commands[command] {
		t.Errorf("%s: %q: %v, or another command", command, line, err)
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

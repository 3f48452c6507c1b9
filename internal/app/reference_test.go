package app

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/cli"
)

// described is the command line as this program parses it.
func described() cli.Description {
	return cli.Describe(newCommandLine(Options{Stdout: io.Discard, Stderr: io.Discard}).app)
}

// TestReference holds docs/commands.md and the manual page to the command line.
func TestReference(t *testing.T) {
	page, err := template.New("commands.md.tmpl").Funcs(template.FuncMap{"code": codeCell, "cell": cell}).
		ParseFiles("testdata/commands.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var commands bytes.Buffer
	line := described()
	if err := page.Execute(&commands, struct {
		cli.Description
		ExitCodes, Signals []cli.Meaning
	}{line, cli.ExitCodes(), cli.Signals()}); err != nil {
		t.Fatal(err)
	}
	man, err := line.Man()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"../../docs/commands.md":          commands.String(),
		"../../docs/inference_exporter.1": man,
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

// codeCell is a text as code in a cell of a table; nothing stays nothing.
func codeCell(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(s, "|", `\|`) + "`"
}

// cell is a text with remarks in a cell of a table.
func cell(help string, remarks []string) string {
	return strings.ReplaceAll(strings.Join(append([]string{help}, remarks...), " "), "|", `\|`)
}

// Every command is explained, and every example is a command line that parses and is in the
// help of the command.
func TestEveryCommandIsExplained(t *testing.T) {
	for _, c := range described().Commands {
		if c.Text == "" || len(c.Examples) == 0 {
			t.Errorf("%s has no text or no example", c.Name)
		}
		help := runToEnd(t, c.Name, "--help").stdout
		for _, e := range c.Examples {
			checkExample(t, c.Name, e)
			if !strings.Contains(help, "\n  # "+e.Purpose+"\n  "+e.Line+"\n") {
				t.Errorf("%q is not in the help of %s", e.Line, c.Name)
			}
		}
	}
}

func checkExample(t *testing.T, command string, e cli.Example) {
	t.Helper()
	line, _, _ := strings.Cut(e.Line, " > ")
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " && ")
	words := strings.Fields(line)
	if words[0] != "inference_exporter" || !strings.HasSuffix(e.Purpose, ".") {
		t.Errorf("%s: %+v", command, e)
	}
	parser := newCommandLine(Options{Stdout: io.Discard, Stderr: io.Discard})
	got, _, err := parser.parse(words[1:])
	if err != nil || got != parser.commands[command] {
		t.Errorf("%s: %q: %v, or another command", command, line, err)
	}
}

func TestDescription(t *testing.T) {
	line := described()
	usages := map[string]string{}
	for _, c := range line.Commands {
		usages[c.Name] = c.Usage("prog")
	}
	for name, want := range map[string]string{
		"serve":      "prog [serve] [FLAGS]",
		"check":      "prog check [FLAGS] [FILE]",
		"probe":      "prog probe [FLAGS] TARGET",
		"completion": "prog completion SHELL",
	} {
		if usages[name] != want {
			t.Errorf("got %q, want %q", usages[name], want)
		}
	}
	for _, hidden := range []string{"complete", "help"} {
		if _, ok := usages[hidden]; ok {
			t.Errorf("%s is shown", hidden)
		}
	}
	f := func(command, flag, long, def string) {
		t.Helper()
		var of *cli.Command
		for _, c := range line.Commands {
			if c.Name == command {
				of = &c
			}
		}
		got := line.Flag(of, flag)
		if got == nil || got.Long() != long || got.Default() != def {
			t.Errorf("%s: got %+v", flag, got)
		}
	}
	f("", "--log.level", "--log.level=LEVEL", "info")
	f("serve", "--web.listen-address", "--web.listen-address=ADDRESS", ":10115")
	f("serve", "--endpoint", "--endpoint=URL", "")
	f("serve", "--collector.gpu", "--[no-]collector.gpu", "on")
	f("serve", "--gpu.processes", "--gpu.processes", "")
	f("serve", "--web.config.file", "--web.config.file=FILE", "")
	f("probe", "-n", "--count=COUNT", "1")
}

func TestMan(t *testing.T) {
	got := runToEnd(t, "man")
	if got.code != cli.ExitOK || got.stderr != "" {
		t.Fatalf("exit code %d, %q", got.code, got.stderr)
	}
	page := got.stdout
	if !strings.HasPrefix(page, ".TH \"INFERENCE_EXPORTER\" \"1\"") {
		t.Errorf("begins with %.60q", page)
	}
	for _, c := range described().Commands {
		if n := strings.Count(page, "\n.SS \""+c.Name+"\"\n"); n != 1 {
			t.Errorf("%d parts on %s", n, c.Name)
		}
	}
	macro := regexp.MustCompile(`^\.(TH|SH|SS|TP|PP|br)( |$)`)
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !macro.MatchString(line) {
			t.Errorf("a macro that nobody meant: %s", line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("not ASCII: %q", line)
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
	page, err := described().Man()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = strings.NewReader(page)
	out, _ := cmd.CombinedOutput() // its exit code depends on the date too
	for line := range strings.Lines(string(out)) {
		// A date would make the page differ from one day to the next.
		if !strings.Contains(line, "WARNING: missing date") {
			t.Error(line)
		}
	}
}

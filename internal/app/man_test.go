package app

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/cli"
)

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
	cmd.Stdin = strings.NewReader(described().Man())
	out, _ := cmd.CombinedOutput() // its exit code tells of the date too
	for line := range strings.Lines(string(out)) {
		// A date would make the page differ from one day to the next.
		if !strings.Contains(line, "WARNING: missing date") {
			t.Error(line)
		}
	}
}

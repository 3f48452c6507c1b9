package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests that the page about security names exist.
func TestThreatsAreTested(t *testing.T) {
	page, err := os.ReadFile("security.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || !strings.Contains(line, "`Test") {
			continue
		}
		rows++
		for _, names := range regexp.MustCompile("((?:`Test\\w+`(?:,| and)? )+)in ([a-z/]+)").FindAllStringSubmatch(cells[3], -1) {
			source := sourceOfTests(t, names[2])
			for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(names[1], -1) {
				if !strings.Contains(source, "func "+name+"(") {
					t.Errorf("there is no test %s in %s", name, names[2])
				}
			}
		}
		if left := regexp.MustCompile("(?:`Test\\w+`(?:,| and)? )+in [a-z/]+(?:, )?").ReplaceAllString(strings.TrimSpace(cells[3]), ""); left != "" {
			t.Errorf("the tests %q are of no package", left)
		}
	}
	if rows < 10 {
		t.Errorf("%d rows with tests", rows)
	}
}

// sourceOfTests returns the tests of a package.
func sourceOfTests(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

package docs

import (
	"go/build/constraint"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each threat of the page about security names tests that bound it, and CI runs them: a test
// in a file that no build there has, or one that begins by skipping itself, bounds nothing.
func TestThreatsAreTested(t *testing.T) {
	page, err := os.ReadFile("security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "| who | can at most | tests |\n| --- | --- | --- |\n")
	if !ok {
		t.Fatal("there is no table of threats")
	}
	builds := buildsOfCI(t)
	list := "((?:`Test\\w+`(?:,| and)? )+)in ([a-z0-9/]+)(?:, )?"
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			break
		}
		tests := strings.TrimSpace(cells[3])
		if rest := regexp.MustCompile(list).ReplaceAllString(tests, ""); tests == "" || rest != "" {
			t.Errorf("%s: want tests, each list with its package; left is %q", strings.TrimSpace(cells[1]), rest)
		}
		for _, named := range regexp.MustCompile(list).FindAllStringSubmatch(tests, -1) {
			for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(named[1], -1) {
				if !slices.ContainsFunc(builds, func(b build) bool { return b.runs(t, named[2], name) }) {
					t.Errorf("CI runs no test %s in %s", name, named[2])
				}
			}
		}
	}
}

// build is a way in which CI runs tests.
type build struct {
	tags, packages []string       // all packages where there are none
	only           *regexp.Regexp // the names of the tests; nil is all
}

// buildsOfCI returns that of make test, and those with tags.
func buildsOfCI(t *testing.T) []build {
	t.Helper()
	script, err := os.ReadFile("../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	platform := []string{"linux", "unix", "cgo", "amd64"}
	builds := []build{{tags: platform}}
	for _, line := range regexp.MustCompile(`(?m)^go test (?:-race )?-tags (\S+) (?:-run (\S+) )?(\./.*)$`).FindAllStringSubmatch(string(script), -1) {
		b := build{tags: append(strings.Split(line[1], ","), platform...), packages: strings.Fields(line[3])}
		if line[2] != "" {
			b.only = regexp.MustCompile(line[2])
		}
		builds = append(builds, b)
	}
	return builds
}

// runs reports whether a test is run.
func (b build) runs(t *testing.T, dir, name string) bool {
	t.Helper()
	if b.packages != nil && !slices.Contains(b.packages, "./"+dir) || b.only != nil && !b.only.MatchString(name) {
		return false
	}
	files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, body, ok := strings.Cut(string(text), "\nfunc "+name+"(t *testing.T) {\n")
		if !ok || strings.HasPrefix(body, "\tt.Skip") {
			return false
		}
		expr, err := constraint.Parse(strings.SplitN(string(text), "\n", 2)[0])
		return err != nil || expr.Eval(func(tag string) bool { return slices.Contains(b.tags, tag) })
	})
}

// The base images of each Dockerfile are pinned by digest: a tag can be moved.
func TestBaseImagesArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
	for _, name := range []string{"../Dockerfile", "../tools/release/Dockerfile"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		from := regexp.MustCompile(`(?m)^FROM (?:--\S+ )*(\S+)`).FindAllStringSubmatch(string(text), -1)
		if len(from) == 0 {
			t.Errorf("%s has no base image", name)
		}
		for _, image := range from {
			if !pinned.MatchString(image[1]) {
				t.Errorf("%s: %s is not pinned by digest", name, image[1])
			}
		}
	}
}

package docs

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// link is a link or picture of a page, as it is written.
type link struct {
	line   int
	target string
}

var (
	linkPattern    = regexp.MustCompile(`\]\(<?([^)<>\s]+)>?(?:\s+"[^"]*")?\)`)
	codePattern    = regexp.MustCompile("`+[^`]*`+")
	headingPattern = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	fencePattern   = regexp.MustCompile("^\\s*(```+|~~~+)")
	anchorPattern  = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// prose returns the lines of a page, with those of code blocks empty.
func prose(page string) []string {
	lines := strings.Split(page, "\n")
	fence := ""
	for i, line := range lines {
		mark := ""
		if m := fencePattern.FindStringSubmatch(line); m != nil {
			mark = m[1]
		}
		switch {
		case fence == "" && mark != "":
			fence = mark
		case fence == "":
			continue
		case strings.HasPrefix(mark, fence):
			fence = ""
		}
		lines[i] = ""
	}
	return lines
}

// linksOf returns the links of a page, without those in code.
func linksOf(page string) []link {
	var all []link
	for i, line := range prose(page) {
		for _, m := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(line, "code"), -1) {
			all = append(all, link{line: i + 1, target: m[1]})
		}
	}
	return all
}

// anchorsOf returns the anchors that forges make of the headings of a page, and
// those that are written.
func anchorsOf(page string) []string {
	seen := map[string]int{}
	var all []string
	for _, line := range prose(page) {
		for _, m := range anchorPattern.FindAllStringSubmatch(line, -1) {
			all = append(all, m[1])
		}
		m := headingPattern.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		anchor := anchorOf(m[1])
		if n := seen[anchor]; n > 0 {
			all = append(all, fmt.Sprintf("%s-%d", anchor, n))
		} else {
			all = append(all, anchor)
		}
		seen[anchor]++
	}
	return all
}

// anchorOf returns the anchor of a heading: its text in lower case, without
// marks, with hyphens for spaces.
func anchorOf(heading string) string {
	heading = linkText.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

var linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// isElsewhere reports whether a link leads out of the repository.
func isElsewhere(target string) bool {
	u, err := url.Parse(target)
	return err == nil && (u.Scheme != "" || u.Host != "")
}

// follow returns the file that a link in a file leads to, or what is wrong with
// it.
func follow(from, target string) (string, error) {
	u, err := url.Parse(target)
	if err != nil {
		return "", err
	}
	to := from
	if u.Path != "" {
		to = filepath.Join(filepath.Dir(from), filepath.FromSlash(u.Path))
	}
	info, err := os.Stat(to)
	if err != nil {
		return "", fmt.Errorf("there is no %s", to)
	}
	if u.Fragment == "" {
		return to, nil
	}
	if info.IsDir() || filepath.Ext(to) != ".md" {
		return "", fmt.Errorf("%s is no page with anchors", to)
	}
	page, err := os.ReadFile(to)
	if err != nil {
		return "", err
	}
	if !slices.Contains(anchorsOf(string(page)), u.Fragment) {
		return "", fmt.Errorf("%s has no anchor #%s", to, u.Fragment)
	}
	return to, nil
}

func TestLinksOf(t *testing.T) {
	page := "# A [b](c.md) title\n" +
		"See [x](y.md#z \"title\"), ![p](p.png) and [u](<w v.md>).\n" +
		"In code `[n](no.md)` nothing.\n\n" +
		"```sh\n[n](no.md)\n```\n" +
		"[two](one.md) [lines\nlong](two.md) [away](https://example.com/)\n"
	want := []link{
		{1, "c.md"},
		{2, "y.md#z"},
		{2, "p.png"},
		{8, "one.md"},
		{9, "two.md"},
		{9, "https://example.com/"},
	}
	if diff := cmp.Diff(want, linksOf(page), cmp.AllowUnexported(link{})); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

func TestAnchorsOf(t *testing.T) {
	page := "# One, two & three\n## `endpoints[].http`\n## Same\n### Same\n```\n# no heading\n```\n" +
		"## [Linked](x.md) thing\n<a id=\"own\"></a>\n## What it is: a_b-c 2\n"
	want := []string{"one-two--three", "endpointshttp", "same", "same-1", "linked-thing", "own", "what-it-is-a_b-c-2"}
	if diff := cmp.Diff(want, anchorsOf(page)); diff != "" {
		t.Errorf("anchors (-want +got):\n%s", diff)
	}
}

func TestFollow(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	write(t, page, "# Here\n")
	write(t, filepath.Join(dir, "data.yml"), "a: 1\n")
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for target, good := range map[string]bool{
		"page.md": true, "#here": true, "page.md#here": true, "data.yml": true, "folder": true, "folder/": true,
		"none.md": false, "#there": false, "page.md#there": false, "data.yml#here": false, "folder#here": false,
	} {
		if _, err := follow(page, target); (err == nil) != good {
			t.Errorf("%s: error %v, want good %v", target, err, good)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

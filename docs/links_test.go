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
)

var (
	linkPattern    = regexp.MustCompile(`\]\(<?([^)<>\s]+)>?(?:\s+"[^"]*")?\)`)
	linkText       = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	codePattern    = regexp.MustCompile("`+[^`]*`+")
	headingPattern = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	fencePattern   = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")
	anchorPattern  = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// prose returns the lines of a page without blocks of code.
func prose(page string) []string { return strings.Split(fencePattern.ReplaceAllString(page, ""), "\n") }

// linksOf returns the targets of the links of a page, without those in code.
func linksOf(page string) []string {
	var all []string
	for _, line := range prose(page) {
		for _, m := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(line, "code"), -1) {
			all = append(all, m[1])
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

// isElsewhere reports whether a link leads out of the repository.
func isElsewhere(target string) bool {
	u, err := url.Parse(target)
	return err == nil && (u.Scheme != "" || u.Host != "")
}

// follow returns the file that a link in a file leads to, or what is wrong with it. It adds the
// anchors of the pages that it reads.
func follow(from, target string, anchors map[string][]string) (string, error) {
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
	if anchors[to] == nil {
		page, err := os.ReadFile(to)
		if err != nil {
			return "", err
		}
		anchors[to] = anchorsOf(string(page))
	}
	if !slices.Contains(anchors[to], u.Fragment) {
		return "", fmt.Errorf("%s has no anchor #%s", to, u.Fragment)
	}
	return to, nil
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

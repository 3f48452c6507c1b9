// Package docs checks the documentation: that links lead somewhere, that one leads
// to every page and that examples load.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages lists the Markdown files whose links are checked.
func pages(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("../*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".", "../examples", "../alerts", "../dashboards", "../tools", "../internal/web"} {
		err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && entry.Name() == "node_modules" {
				return filepath.SkipDir
			}
			if err == nil && filepath.Ext(name) == ".md" {
				all = append(all, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLinks checks that links lead somewhere, and that a link leads to each page in this folder.
func TestLinks(t *testing.T) {
	linked, anchors := map[string]bool{}, map[string][]string{}
	for _, name := range pages(t) {
		for _, l := range linksOf(read(t, name)) {
			if isElsewhere(l) {
				continue
			}
			to, err := follow(name, l, anchors)
			if err != nil {
				t.Errorf("%s: link %s: %v", name, l, err)
			}
			linked[filepath.Clean(to)] = true
		}
	}
	for _, name := range pages(t) {
		if filepath.IsLocal(name) && name != "README.md" && !linked[name] {
			t.Errorf("no link leads to %s", name)
		}
	}
}

var (
	metricPattern = regexp.MustCompile(`\binference_(?:probe|server|gpu|exporter|endpoint|slo)_[a-z_]*[a-z]`)
	wildcard      = regexp.MustCompile(`\binference_[a-z_]+\*`)
	flagPattern   = regexp.MustCompile(`--(?:no-)?(?:collector|config|gpu|log|shard|state|web)\.[a-z-]+(?:\.[a-z-]+)*`)
)

// TestNames looks up the metrics and flags that pages speak of in the
// references, which are generated.
func TestNames(t *testing.T) {
	names, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := metricPattern.FindAllString(read(t, "metrics.md"), -1)
	flags := flagPattern.FindAllString(strings.ReplaceAll(read(t, "commands.md"), "--[no-]", "--"), -1)
	var found int
	for _, name := range append(names, "../README.md", "../SECURITY.md") {
		page := wildcard.ReplaceAllString(read(t, name), "")
		for _, metric := range metricPattern.FindAllString(page, -1) {
			found++
			family := metric
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				family = strings.TrimSuffix(family, suffix)
			}
			// Recording rules of a counter leave out its suffix.
			if !slices.Contains(metrics, family) && !slices.Contains(metrics, family+"_total") {
				t.Errorf("%s: there is no metric %s", name, metric)
			}
		}
		for _, flag := range flagPattern.FindAllString(page, -1) {
			found++
			if !slices.Contains(flags, strings.Replace(flag, "--no-", "--", 1)) {
				t.Errorf("%s: there is no flag %s", name, flag)
			}
		}
	}
	if found < 100 {
		t.Errorf("found only %d names", found)
	}
}

// The base images of each Dockerfile are pinned by digest: a tag can be moved.
func TestBaseImagesArePinned(t *testing.T) {
	for _, name := range []string{"../Dockerfile", "../tools/release/Dockerfile"} {
		for _, image := range regexp.MustCompile(`(?m)^FROM .*$`).FindAllString(read(t, name), -1) {
			if !strings.Contains(image, "@sha256:") {
				t.Errorf("%s: %s is not pinned by digest", name, image)
			}
		}
	}
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-exporter/inference_exporter/alerts"
)

const (
	runbookDir   = "../../../docs/runbooks"
	dashboardDir = "../../../dashboards"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// runbookPages returns the text of each runbook by the name of its alert.
func runbookPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(runbookDir, "Inference*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, f := range files {
		pages[strings.TrimSuffix(filepath.Base(f), ".md")] = readFile(t, f)
	}
	return pages
}

// TestRunbookQueries parses every query and looks up every metric.
func TestRunbookQueries(t *testing.T) {
	t.Parallel()
	known := knownMetrics(t)
	block := regexp.MustCompile("(?s)```promql\n(.*?)```")
	inline := regexp.MustCompile("`(inference_[a-z0-9_]+)`")
	p := parser.NewParser(parser.Options{})
	for name, page := range runbookPages(t) {
		for _, m := range block.FindAllStringSubmatch(page, -1) {
			expr, err := p.ParseExpr(m[1])
			if err != nil {
				t.Errorf("%s: query %q: %v", name, m[1], err)
				continue
			}
			parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
				if s, ok := node.(*parser.VectorSelector); ok && !known[s.Name] {
					t.Errorf("%s: query names %s, which is no metric", name, s.Name)
				}
				return nil
			})
		}
		for _, m := range inline.FindAllStringSubmatch(page, -1) {
			if m[1] != "inference_exporter" && !known[m[1]] {
				t.Errorf("%s names %s, which is no metric", name, m[1])
			}
		}
	}
}

// knownMetrics are those of the reference, which is made from the catalogue of
// the exporter, and those that the rules record.
func knownMetrics(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{"up": true, "ALERTS": true}
	row := regexp.MustCompile("(?m)^\\| `(inference_\\w+)` \\|")
	for _, m := range row.FindAllStringSubmatch(readFile(t, "../../../docs/metrics.md"), -1) {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			known[m[1]+suffix] = true
		}
	}
	for _, g := range append(alerts.Recording(allSets()), alerts.Alerts(allSets())...) {
		for _, r := range g.Rules {
			known[r.Record] = true
		}
	}
	return known
}

// TestRunbookPanels finds every panel and row that a runbook names on the board
// that it names before it.
func TestRunbookPanels(t *testing.T) {
	t.Parallel()
	boards := boardTitles(t)
	name := regexp.MustCompile(`\*\*(.+?)\*\*|\*(\w+)\* board`)
	for alert, page := range runbookPages(t) {
		board := ""
		for _, m := range name.FindAllStringSubmatch(page, -1) {
			switch {
			case m[2] != "" && boards[m[2]] == nil:
				t.Errorf("%s names the board %s, which is none", alert, m[2])
			case m[2] != "":
				board = m[2]
			case !boards[board][m[1]]:
				t.Errorf("%s names the panel %q, which the board %s does not have", alert, m[1], board)
			}
		}
	}
}

// boardTitles returns the titles of panels and rows by the last word of the
// board's own title.
func boardTitles(t *testing.T) map[string]map[string]bool {
	t.Helper()
	type panel struct {
		Title  string
		Panels []struct{ Title string }
	}
	files, err := filepath.Glob(filepath.Join(dashboardDir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no boards: %v", err)
	}
	boards := map[string]map[string]bool{}
	for _, f := range files {
		var board struct {
			Title  string
			Panels []panel
		}
		if err := json.Unmarshal([]byte(readFile(t, f)), &board); err != nil {
			t.Fatalf("read %s: %v", f, err)
		}
		titles := map[string]bool{}
		for _, p := range board.Panels {
			titles[p.Title] = true
			for _, inner := range p.Panels {
				titles[inner.Title] = true
			}
		}
		boards[board.Title[strings.LastIndex(board.Title, " ")+1:]] = titles
	}
	return boards
}

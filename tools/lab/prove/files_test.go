package prove

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-exporter/inference_exporter/tools/lab/prove/board"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/query"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/stand"
)

// tool returns the path of a program of Prometheus: the one that the environment
// names, in PROMETHEUS, PROMTOOL or AMTOOL, or the one that was built.
func tool(t testing.TB, name string) string {
	t.Helper()
	variables := map[string]string{"prometheus": "PROMETHEUS", "promtool": "PROMTOOL", "amtool": "AMTOOL"}
	path := os.Getenv(variables[name])
	if path == "" {
		path = filepath.Join("../../../.tools", name)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: build it with tools/prometheus/build.sh %s, or name it in %s", err, name, variables[name])
	}
	return path
}

// glob returns the files that a pattern matches, of which there must be some.
func glob(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no files %s", pattern)
	}
	return files
}

func readBoards(t testing.TB, pattern string) []*board.Board {
	t.Helper()
	var all []*board.Board
	for _, name := range glob(t, pattern) {
		b, err := board.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Queries) == 0 {
			t.Fatalf("%s asks nothing", name)
		}
		all = append(all, b)
	}
	return all
}

// readAllowed reads the allowances in a file. Each must be for one of checks.
func readAllowed(t *testing.T, name string, checks []*check) map[string]allowance {
	t.Helper()
	allowed, err := readAllowances(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range allowed {
		if !slices.ContainsFunc(checks, func(c *check) bool {
			found, _ := excuse(allowed, c)
			return found == a
		}) {
			t.Errorf("%s excuses %q, which nobody asks", name, a.Query)
		}
	}
	return allowed
}

// recordedBy returns the names that rules record.
func recordedBy(rules []rule) []string {
	var names []string
	for _, r := range rules {
		if r.Record != "" {
			names = append(names, r.Record)
		}
	}
	return names
}

// readers returns a function that says whether an expression reads a series,
// itself or through what rules make of it.
func readers(t *testing.T, rules []rule, series string) func(parser.Expr) bool {
	t.Helper()
	// Alerts come from every rule.
	needed := map[string]bool{series: true, "ALERTS": true}
	uses := func(e parser.Expr) bool {
		return slices.ContainsFunc(query.Reads(e), func(name string) bool { return needed[name] })
	}
	for before := 0; before != len(needed); {
		before = len(needed)
		for _, r := range rules {
			e, err := query.Parse(r.Expr)
			if err != nil {
				t.Fatal(err)
			}
			if r.Record != "" && uses(e) {
				needed[r.Record] = true
			}
		}
	}
	return uses
}

// waitFor waits until an expression has a result.
func waitFor(ctx context.Context, t *testing.T, c stand.Client, expr string) {
	t.Helper()
	for {
		series, err := c.Instant(ctx, expr, time.Now())
		if err == nil && len(series) > 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s did not come true: %v", expr, err)
		case <-time.After(time.Second):
		}
	}
}

func closeAtEnd(t *testing.T, c func() error) {
	t.Cleanup(func() {
		if err := c(); err != nil {
			t.Error(err)
		}
	})
}

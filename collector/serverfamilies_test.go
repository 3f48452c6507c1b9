package collector

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
)

// The closed sets are those of the packages that the values come from, so that
// nothing that is told is lost.
func TestServerSetsAreComplete(t *testing.T) {
	f := func(path, kind string, got []string) {
		t.Helper()
		want := stringConstants(t, path, kind)
		slices.Sort(want)
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("values of %s (-source +page):\n%s", kind, d)
		}
	}
	f("../engine/snapshot.go", "State", labelValues(states()))
	f("../engine/snapshot.go", "Reason", labelValues(scrapeReasons()))
	f("../config/quantity.go", "Quantity", labelValues(config.Quantities()))
	names := make(map[string]Type)
	for _, f := range serverFamilies() {
		names[f.Name] = f.Type
	}
	for _, q := range config.Quantities() {
		name, want := "inference_server_"+string(q), Gauge
		switch {
		case slices.Contains(config.Distributions(), q):
			name, want = name+"_seconds", Histogram
		case config.IsCounter(q):
			name, want = name+"_total", Counter
		}
		if names[name] != want {
			t.Errorf("%s is a %q, want a %s", name, names[name], want)
		}
	}
	if engine.RatioWindow != 5*time.Minute {
		t.Errorf("the help of server_prefix_cache_hit_ratio says 5 minutes, not %s", engine.RatioWindow)
	}
}

// stringConstants returns the values of the constants of a type in a file, but
// not the empty one.
func stringConstants(t *testing.T, path, kind string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(path), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == kind {
			if v, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value); err == nil && v != "" {
				out = append(out, v)
			}
		}
		return true
	})
	return out
}

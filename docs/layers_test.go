package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// layers lists the packages from those that import no other to the program, as
// architecture.md describes them: each imports only packages of layers before its own.
func layers() [][]string {
	return [][]string{
		{
			"alerts", "internal/page/testdata/pages/servers",
			"internal/fakenvml", "internal/foreign", "internal/safetext", "internal/stats",
			"prober/stream",
		},
		{"gpu", "gpu/pods", "internal/store", "prober/api", "prober/cloudauth"},
		{"config", "prober/detect"},
		{"internal/cli", "internal/result"},
		{"internal/series", "internal/workload"},
		{"internal/workload/*"}, // each kind of workload
		{"internal/simulator"},
		{"internal/discovery", "internal/page", "internal/compare", "internal/health", "prober", "internal/testlab"},
		{"gpu/amd", "internal/explain"},
		{"collector", "internal/otlp", "internal/report", "internal/schedule", "internal/status"},
		{"internal/fleet"},
		{"internal/web"},
		{"internal/app"},
		{"."},
	}
}

func TestImportsGoInOneDirection(t *testing.T) {
	const module = "github.com/inference-exporter/inference_exporter/"
	layer := map[string]int{}
	for i, packages := range layers() {
		for _, p := range packages {
			layer[p] = i
		}
	}
	seen := map[string]bool{}
	// layerOf returns the layer of a package: its own, or that of all in its folder.
	layerOf := func(dir string) (int, bool) {
		own, known := layer[dir]
		if !known {
			dir = path.Dir(dir) + "/*"
			own, known = layer[dir]
		}
		seen[dir] = true
		return own, known
	}
	for _, name := range programFiles(t) {
		dir := filepath.ToSlash(filepath.Dir(name))
		own, known := layerOf(dir)
		if !known {
			t.Errorf("%s: package %s is in no layer", name, dir)
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			other, ours := strings.CutPrefix(target, module)
			if at, _ := layerOf(other); ours && at >= own {
				t.Errorf("%s: %s imports %s of the same or a higher layer", name, dir, other)
			}
		}
	}
	for p := range layer {
		if !seen[p] {
			t.Errorf("package %s is missing", p)
		}
	}
}

// programFiles lists the Go files of the module but for tests, from its root.
func programFiles(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		switch {
		case entry.IsDir() && (base == "tools" || base == "node_modules" || strings.HasPrefix(base, ".") && base != ".."):
			return filepath.SkipDir
		case filepath.Ext(base) == ".go" && !strings.HasSuffix(base, "_test.go"):
			names = append(names, strings.TrimPrefix(filepath.ToSlash(name), "../"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

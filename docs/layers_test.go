package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// layers returns the place of each package in the list of architecture.md, from the program down.
func layers(t *testing.T) map[string]int {
	t.Helper()
	_, list, ok := strings.Cut(read(t, "architecture.md"), "\nImports go in one direction: ")
	list, _, _ = strings.Cut(list, "\n## ")
	layer := map[string]int{}
	for i, line := range regexp.MustCompile(`(?m)^\d+\. .*$`).FindAllString(list, -1) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line, -1) {
			layer[m[1]] = i
		}
	}
	if !ok || len(layer) < 20 {
		t.Fatalf("the list of architecture.md has %d packages", len(layer))
	}
	return layer
}

// TestImportsGoInOneDirection checks that each package imports only packages of later layers.
func TestImportsGoInOneDirection(t *testing.T) {
	const module = "github.com/inference-exporter/inference_exporter/"
	layer := layers(t)
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
			if at, _ := layerOf(other); ours && at <= own {
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

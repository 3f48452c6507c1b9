package result

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestClosedSetsAreComplete compares the list of each closed set with the constants
// of its type.
func TestClosedSetsAreComplete(t *testing.T) {
	for _, set := range []struct {
		file, name string
		listed     []string
	}{
		{"outcome.go", "Outcome", labels(Outcomes())},
		{"outcome.go", "SkipReason", labels(SkipReasons())},
		{"result.go", "Clock", labels(Clocks())},
		{"result.go", "TokenSource", labels(TokenSources())},
	} {
		if want := constants(t, set.file, set.name); len(want) == 0 || !slices.Equal(set.listed, want) {
			t.Errorf("%s: listed are %q, the constants are %q", set.name, set.listed, want)
		}
	}
	seen := map[string]bool{"": true}
	for p := range NumPhases {
		if seen[p.String()] {
			t.Errorf("phase %d is %q", p, p)
		}
		seen[p.String()] = true
	}
}

func labels[T ~string](list []T) []string {
	var all []string
	for _, v := range list {
		all = append(all, string(v))
	}
	return all
}

// constants returns the values of the constants of a type in a file, in order.
func constants(t *testing.T, file, name string) (values []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == name {
			for _, v := range spec.Values {
				value, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, value)
			}
		}
		return false
	})
	return values
}

// TestDescription wants words of its own for every outcome of a failure, none of
// them a label value.
func TestDescription(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Outcomes() {
		text := o.Description()
		if seen[text] || strings.Contains(text, "_") || text == "" {
			t.Errorf("%s: %q", o, text)
		}
		seen[text] = true
	}
}

// TestAdvice wants advice after every failure, and none after a success.
func TestAdvice(t *testing.T) {
	for _, o := range Outcomes() {
		for _, status := range []int{0, 200, 302, 400, 404, 405, 407, 418, 422, 500, 502, 504} {
			r := &Result{Outcome: o, Status: status}
			if a := r.Advice(); (a == "") != (o == Success) {
				t.Errorf("%s with status %d: advice %q", o, status, a)
			}
		}
	}
}

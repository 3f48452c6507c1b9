package asset

import "testing"

func TestOnce(t *testing.T) {
	type file struct{ Names []string }
	for text, fails := range map[string]bool{"names: [a, b]": false, "names: [a, b]\nnmaes: [c]": true, "names: a": true, "": true} {
		read := Once[file]("f.yml", []byte(text))
		func() {
			defer func() {
				if r := recover(); (r != nil) != fails {
					t.Errorf("%q: panics with %v, want one: %t", text, r, fails)
				}
			}()
			if got := read(); len(got.Names) != 2 || &read().Names[0] != &got.Names[0] {
				t.Errorf("%q: %v, or decoded twice", text, got)
			}
		}()
	}
}

package store

import (
	"maps"
	"os"
	"testing"
)

// FuzzFile reads any bytes as a file of the state: it never panics, and hands over
// records only where the whole file is sound.
func FuzzFile(f *testing.F) {
	_, name := written(f, 1, 2, 3)
	good, err := os.ReadFile(name)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(compressed(f, goodHeader, `{"series":{"at":[1]}}`, ``, goodEnd))
	f.Add(compressed(f, goodHeader))
	f.Add([]byte("x"))
	f.Add(append(compressed(f, goodHeader, `1`, goodEnd), good[:len(good)/2]...))
	f.Fuzz(func(t *testing.T, file []byte) {
		records := map[int]int{} // by section
		whole, err := scan(file, func(section int, _ []byte) { records[section]++ })
		if err == nil && len(whole) == 0 {
			t.Error("sound, and without a section")
		}
		again, second := scan(file, func(section int, _ []byte) { records[section]-- })
		if !maps.EqualFunc(whole, again, func(a, b section) bool { return a.index == b.index }) || (err == nil) != (second == nil) {
			t.Errorf("%v and %v, read again %v and %v", whole, err, again, second)
		}
		for section, n := range records {
			if n != 0 {
				t.Errorf("section %d: %d records more the first time", section, n)
			}
		}
	})
}

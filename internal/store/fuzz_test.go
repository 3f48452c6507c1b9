package store

import (
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
		whole, err := check(file)
		if err == nil && len(whole) == 0 {
			t.Error("sound, and without a section")
		}
		for name, s := range whole {
			// What follows a whole section may fail, and the section is there before.
			if again := records(file, map[int]func([]byte){s.index: func([]byte) {}}); err == nil && again != nil {
				t.Errorf("%s: sound, and then %v", name, again)
			}
		}
	})
}

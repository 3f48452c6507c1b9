package store

import (
	"errors"
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
	f.Add(compressed(f, goodHeader, `{"series":{"at":[1]}}`, ``))
	f.Add(compressed(f, goodHeader))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, file []byte) {
		_, err := check(file)
		accepted, rejected, again := records(file, func(record []byte) error {
			if len(record)%2 == 0 {
				return errors.New("even")
			}
			return nil
		})
		if err == nil && (again != nil || accepted < 0 || rejected < 0) {
			t.Errorf("sound, and then %v", again)
		}
	})
}

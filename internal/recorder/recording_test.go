package recorder

import (
	"testing"
)

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"endpoint":"a","incident":{"kind":"down","start":"2026-01-02T03:04:05Z"},"from":"2026-01-02T02:54:05Z","config":"","entries":[{"at":"2026-01-02T03:04:05Z","self":{}}]}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Decode(text)
		if (r == nil) == (err == nil) {
			t.Fatalf("a recording %v with error %v", r, err)
		}
	})
}

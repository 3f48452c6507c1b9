package stream

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// Before its buffers pass FreeBuffer a reader asks for all that it is to hold,
// and a no ends the reply.
func TestReserve(t *testing.T) {
	const long = 100 << 10
	line := strings.Repeat("x", long)
	for name, f := range map[string]struct {
		framing Framing
		body    string
		least   int // what the reader holds of the body at once
	}{
		"SSE, one line":   {SSE, "data: " + line + "\n\n", 2 * long},
		"SSE, many":       {SSE, strings.Repeat("data: "+line[:1000]+"\n", long/1000) + "\n", long},
		"NDJSON":          {NDJSON, line + "\n", long},
		"whole":           {Whole, line, long},
		"usual SSE":       {SSE, strings.Repeat("data: "+line[:2000]+"\n\n", 100), 0},
		"endless":         {SSE, "data: " + strings.Repeat(line, 50), long},
		"endless, NDJSON": {NDJSON, strings.Repeat(line, 50), long},
	} {
		t.Run(name, func(t *testing.T) {
			most := 0
			l := DefaultLimits()
			l.Reserve = func(n int) error {
				most = max(most, n)
				return nil
			}
			for r := New(f.framing, strings.NewReader(f.body), l); ; {
				if _, err := r.Next(); err != nil {
					break
				}
			}
			if most < f.least || f.least == 0 && most > 0 {
				t.Errorf("asked for %d bytes at most, held %d", most, f.least)
			}
			if f.least == 0 {
				return
			}
			no := errors.New("no memory")
			l.Reserve = func(n int) error {
				if n <= FreeBuffer {
					t.Errorf("asked for %d bytes", n)
				}
				return no
			}
			var err error
			for r := New(f.framing, strings.NewReader(f.body), l); err == nil; {
				_, err = r.Next()
			}
			if !errors.Is(err, no) || errors.Is(err, io.EOF) {
				t.Errorf("error %v", err)
			}
		})
	}
}

package page

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The lengths of requests are on the pages of real servers, and are read where they are
// asked for.
func TestLengthsOfRequests(t *testing.T) {
	m := NewMappings(Servers, nil)
	type total struct {
		count uint64
		sum   float64
	}
	f := func(page string, input, output total) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("testdata", "pages", "servers", page+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		for _, with := range []bool{false, true} {
			mappings := m
			if with {
				mappings = m.WithLengths()
			}
			s, err := mappings.NewReader().Read(append([]byte{}, text...), textFormat, time.Unix(1, 0), Want{})
			if err != nil {
				t.Fatalf("%s: %v", page, err)
			}
			for what, c := range map[string]struct {
				got  *Histogram
				want total
			}{"input": {s.InputLengths, input}, "output": {s.OutputLengths, output}} {
				if !with && c.got == nil {
					continue
				}
				if !with || c.got == nil || c.got.Count != c.want.count || c.got.Sum != c.want.sum || len(c.got.Bounds) < 10 {
					t.Errorf("%s, %s, with lengths %t: %+v, want %+v", page, what, with, c.got, c.want)
				}
			}
		}
	}
	f("vllm-0.32", total{176, 54976}, total{176, 4867})
	f("sglang-0.5.23", total{213, 69673}, total{213, 10336})
	f("max", total{40, 12000}, total{40, 2400})
	f("tgi", total{312, 420000}, total{310, 31000})
}

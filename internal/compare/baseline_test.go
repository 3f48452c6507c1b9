package compare

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBaselineIsReadAsWritten(t *testing.T) {
	want := Baseline{
		Version: 1, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Endpoint: "llama", URL: "http://a?b=c&d", Module: "rag",
		Runs: []Figures{{TTFT: 0.2, TPOT: 0.02, Requests: 1, Judged: 1, Wrong: 1}, {Requests: 2, Failed: 2}, {Duration: 0.1, Requests: 1}},
	}
	var text bytes.Buffer
	if err := want.Write(&text); err != nil {
		t.Fatal(err)
	}
	got, err := ReadBaseline(text.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(text.String(), `"ttft_seconds": 0.2`) || !strings.Contains(text.String(), `http://a?b=c&d`) {
		t.Errorf("text:\n%s", &text)
	}
}

func TestBaselinesThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:                                      "decode a baseline",
		`[]`:                                    "decode a baseline",
		`{"runs":[]}`:                           "baseline has version 0, want 1",
		`{"version":1,"runs":[{"p99":1}]}`:      "unknown field",
		`{"version":1,"runs":[{"requests":0}]}`: "run 1 of a baseline: the request counts",
		`{"version":1,"runs":[{"requests":1,"failed":2}]}`:                       "the request counts",
		`{"version":1,"runs":[{"requests":1,"wrong":1}]}`:                        "the request counts",
		`{"version":1,"runs":[{"requests":1,"failed":0,"tpot_seconds":-0.001}]}`: "a latency is negative",
	} {
		if _, err := ReadBaseline([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestShuffled(t *testing.T) {
	var b Baseline
	for i := range 50 {
		b.Runs = append(b.Runs, Figures{Requests: i + 1})
	}
	order := func(f []Figures) (n []int) {
		for _, r := range f {
			n = append(n, r.Requests)
		}
		return n
	}
	stored := order(b.Runs)
	one, same, other := order(b.Shuffled(1)), order(b.Shuffled(1)), order(b.Shuffled(2))
	if !slices.Equal(one, same) || slices.Equal(one, other) || slices.Equal(one, stored) || !slices.Equal(order(b.Runs), stored) {
		t.Errorf("%v\n%v\n%v", one, same, other)
	}
	slices.Sort(one)
	if !slices.Equal(one, stored) {
		t.Errorf("not each once: %v", one)
	}
}

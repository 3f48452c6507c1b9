package load

import (
	"math"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// TestGivenLengths asks the lengths of a trace of tokenizers with so many tokens per word and in the template, and
// compares what the server counts with what is wanted: from the tenth request on within 2 %, or some tokens.
func TestGivenLengths(t *testing.T) {
	lengths := []int{374, 396, 879, 91, 381, 1313, 2221, 12000, 60, 4808, 110, 32000, 217, 500, 3180, 7433, 91, 1000}
	for _, server := range []struct{ slope, template float64 }{{1.1, 3}, {1.35, 60}, {1.8, 400}, {3, 20}, {0.75, 10}} {
		a := newSource(&config.Module{Prefix: config.PrefixCold})
		for i, want := range lengths {
			q := a.NextOf(want, 7, 0)
			words := len(strings.Fields(q.Texts[0]))
			got := int(server.template + server.slope*float64(words))
			shortest := server.template + server.slope*(fixedWords+nonceWords)
			if allowed := max(0.02*float64(want), noise); i >= 10 && float64(want) > shortest && math.Abs(float64(got-want)) > allowed {
				t.Errorf("%+v: request %d has %d tokens, want %d", server, i, got, want)
			}
			if q.Wanted != want || q.Output != 7 || !q.Exact {
				t.Errorf("%d tokens asked for an answer of %d (exact: %t), want %d and 7", q.Wanted, q.Output, q.Exact, want)
			}
			if skip := q.Learn(got); skip != nil {
				t.Errorf("%+v: request %d: %v", server, i, skip)
			}
		}
	}
}

// TestGivenLengthsBeforeTheFirstCount makes a prompt shorter that may not fit, and takes no count that cannot be.
func TestGivenLengthsBeforeTheFirstCount(t *testing.T) {
	a := newSource(&config.Module{Prefix: config.PrefixCold})
	if q := a.NextOf(3000, 100, 4096); q.Length != 2000 || q.Wanted != 3000 {
		t.Errorf("made to %d of %d tokens, want 2000 of 3000", q.Length, q.Wanted)
	}
	if skip := a.NextOf(3000, 100, 0).Learn(1024); skip == nil || skip.Reason != result.SkipTruncated {
		t.Errorf("1024 of 3000 tokens: got %v, want truncated", skip)
	}
	for _, tokens := range []int{0, -1, 10, 1_000_000} {
		if skip := a.NextOf(3000, 100, 0).Learn(tokens); skip != nil {
			t.Errorf("%d tokens: %v", tokens, skip)
		}
	}
	if a.counts != (countLine{}) {
		t.Errorf("learnt %+v of counts that cannot be", a.counts)
	}
	if q := a.NextOf(3000, 100, 4096); q.Length != 3000 {
		t.Errorf("made to %d tokens after a count, want 3000", q.Length)
	}
}

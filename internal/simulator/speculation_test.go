package simulator

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
)

// The events after the first have from one to five tokens, as many on average as asked for,
// and together all of the answer.
func TestTokensPerEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{TokensPerEvent: 2.6, Seed: 1}, false)
		defer v.stop()
		a := v.post(context.Background(), "/v1/completions",
			`{"prompt":"x","max_tokens":4000,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`, 1<<24)
		r, _ := v.Request(trace)
		var sizes []int
		for _, e := range r.Events {
			if e.Kind == Answer {
				sizes = append(sizes, e.Tokens)
			}
		}
		all := 0
		for i, n := range sizes {
			all += n
			if n < 1 || n > 5 || i == 0 && n != 1 {
				t.Errorf("event %d has %d tokens", i, n)
			}
		}
		if mean := float64(all-1) / float64(len(sizes)-1); all != 4000 || math.Abs(mean-2.6) > 0.1 { // four deviations
			t.Errorf("%d tokens, %v in an event", all, mean)
		}
		if !strings.Contains(a.body, `"completion_tokens":4000`) {
			t.Error("the usage is not that of all tokens")
		}
	})
}

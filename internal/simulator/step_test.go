package simulator

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// completion returns a request of n prompt tokens that begin with word.
func completion(word string, n, output int) string {
	return fmt.Sprintf(`{"prompt":"%s","max_tokens":%d,"temperature":0,"stream":true}`, word+strings.Repeat(" four", n-1), output)
}

// TestFirstTokenIsLinear compares TTFT at the wire with what Options say: the
// fixed delay, P/rate and one step. One replica has no phase.
func TestFirstTokenIsLinear(t *testing.T) {
	const rate, fixed, step = 4000.0, 35 * ms, 25 * ms
	for _, p := range []int{1, 16, 100, 256, 511, 512, 513, 1000, 1024, 2048, 4096, 8000} {
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{PrefillTokensPerSecond: rate, FixedDelay: fixed, DecodeStep: step}, false)
			defer v.stop()
			begin := time.Now()
			v.post(context.Background(), "/v1/completions", completion("cold", p, 3), 1<<20)
			r, _ := v.Request(trace)
			got := r.Events[0].At.Sub(begin).Seconds()
			want := 0.035 + float64(p)/rate + 0.025
			if math.Abs(got/want-1) > 1e-6 {
				t.Errorf("%d tokens: first token after %v s, want %v", p, got, want)
			}
			if r.Queue != 0 || math.Abs(r.Prefill.Seconds()-want+0.035) > 1e-6 {
				t.Errorf("%d tokens: queue %v, prefill %v", p, r.Queue, r.Prefill)
			}
			// What comes after the first token has no delay.
			if gap := r.Events[2].At.Sub(r.Events[0].At); gap != 2*step {
				t.Errorf("two more tokens after %v", gap)
			}
		})
	}
}

func TestPace(t *testing.T) {
	f := func(pace float64, promptTokens int, first, second time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			r := testReplica(nil) // 1 ms per token, 20 ms per step
			begin := time.Now()
			q := newSequence(promptOf(1, promptTokens), 2, finishLength)
			q.pace = pace
			if !r.submit(q) {
				t.Fatal("not submitted")
			}
			end := finished(q)
			if got := q.progress().first.Sub(begin); got != first {
				t.Errorf("pace %v: first token of %d after %v, want %v", pace, promptTokens, got, first)
			}
			if got := end.Sub(begin); got != second {
				t.Errorf("pace %v: second token of %d after %v, want %v", pace, promptTokens, got, second)
			}
		})
	}
	f(1.5, 100, 180*ms, 200*ms)       // 1.5 x (100 + 20), then a step as always
	f(0.75, 1000, 765*ms, 785*ms)     // in two chunks
	f(0.5, 2, 11*ms, 31*ms)           //
	f(2, 1024, 2088*ms, 2108*ms)      //
	f(0.001, 10, 30*1000, 20030*1000) // 30 µs
}

// The factor has mean 1 and the deviation asked for. The bounds are four
// deviations of the two statistics of 20000 draws.
func TestPrefillNoise(t *testing.T) {
	for _, deviation := range []float64{0.02, 0.1, 0.5} {
		s := New(Options{PrefillNoise: deviation, Seed: 7})
		const n = 20000
		sum, squares, least := 0.0, 0.0, math.Inf(1)
		for range n {
			p := s.pace()
			sum += p
			squares += p * p
			least = min(least, p)
		}
		mean := sum / n
		if math.Abs(mean-1) > 4*deviation/math.Sqrt(n) {
			t.Errorf("noise of %v: mean %v", deviation, mean)
		}
		// A log-normal has heavy tails: its fourth moment is larger than 3.
		w := 1 + deviation*deviation
		kurtosis := math.Pow(w, 4) + 2*math.Pow(w, 3) + 3*w*w - 3
		bound := 4 * deviation / 2 * math.Sqrt((kurtosis-1)/n)
		if got := math.Sqrt(squares/n - mean*mean); math.Abs(got-deviation) > bound {
			t.Errorf("noise of %v: deviation %v, want within %v", deviation, got, bound)
		}
		if least <= 0 {
			t.Errorf("noise of %v: a factor of %v", deviation, least)
		}
	}
	if p := New(Options{}).pace(); p != 1 {
		t.Errorf("without noise: a factor of %v", p)
	}
}

// TestNoiseIsInTheFirstTokenAlone asks over the wire.
func TestNoiseIsInTheFirstTokenAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{PrefillTokensPerSecond: 1000, DecodeStep: 20 * ms, FixedDelay: 50 * ms, PrefillNoise: 0.1, Seed: 3}, false)
		defer v.stop()
		const n = 200
		sum, squares := 0.0, 0.0
		for i := range n {
			begin := time.Now()
			v.post(context.Background(), "/v1/completions", completion(fmt.Sprintf("%04d", i), 100, 2), 1<<20)
			r, _ := v.Request(trace)
			x := (r.Events[0].At.Sub(begin) - 50*ms).Seconds() / 0.120
			sum += x
			squares += x * x
			if gap := r.Events[1].At.Sub(r.Events[0].At); gap != 20*ms {
				t.Errorf("a decode step of %v", gap)
			}
		}
		mean := sum / n
		deviation := math.Sqrt(squares/n - mean*mean)
		if math.Abs(mean-1) > 4*0.1/math.Sqrt(n) || math.Abs(deviation-0.1) > 4*0.1/math.Sqrt(2*n) {
			t.Errorf("mean %v, deviation %v", mean, deviation)
		}
	})
}

// TestBurst has requests of one chunk each that come together: each waits for
// the prefill of those before it, and shares its step with their decoding.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testReplica(nil)
		begin := time.Now()
		var all []*sequence
		for i := range 8 {
			all = append(all, start(t, r, promptOf(i, 512), 20))
		}
		want := time.Duration(0)
		for k, q := range all {
			want += 512*ms + 20*ms + time.Duration(k)*ms
			finished(q)
			if got := q.progress().first.Sub(begin); got != want {
				t.Errorf("request %d: first token after %v, want %v", k+1, got, want)
			}
		}
	})
}

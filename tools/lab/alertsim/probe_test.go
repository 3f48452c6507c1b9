package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The shares are those of a table of the normal distribution: twice as slow
// with a deviation of 0.5 lowers the threshold from 2.326 to 0.940 deviations.
func TestShareAbove(t *testing.T) {
	t.Parallel()
	tests := []struct {
		factor, headroom, sigma float64
		want                    float64
	}{
		{1, 1, 0.5, 0.01},
		{2, 1, 0.25, 0.672},
		{2, 1, 0.5, 0.174},
		{2, 1, 1, 0.0512},
		{2, 1.5, 0.5, 0.0400},
	}
	for _, tt := range tests {
		if got := shareAbove(tt.factor, tt.headroom, tt.sigma); math.Abs(got/tt.want-1) > 0.01 {
			t.Errorf("shareAbove(%g, %g, %g) = %g, want %g", tt.factor, tt.headroom, tt.sigma, got, tt.want)
		}
	}
}

func TestChance(t *testing.T) {
	t.Parallel()
	const n = 1_000_000
	for _, tt := range []struct{ share, burst, wantRun float64 }{
		{0.01, 0, 1 / (1 - 0.01)}, // independent draws: a bad one follows by chance
		{0.01, 4, 4},
		{0.005, 12, 12},
	} {
		var c chance
		random := rand.New(rand.NewPCG(1, 2))
		bad, runs := 0, 0
		before := false
		for range n {
			is := c.draw(random, tt.share, tt.burst)
			if is {
				bad++
				if !before {
					runs++
				}
			}
			before = is
		}
		// Five standard deviations of the number of bad ones, which bursts widen.
		spread := 5 * math.Sqrt(tt.share*n*2*max(1, tt.burst))
		if math.Abs(float64(bad)-tt.share*n) > spread {
			t.Errorf("share %g, burst %g: %d of %d are bad", tt.share, tt.burst, bad, n)
		}
		if got := float64(bad) / float64(runs); math.Abs(got/tt.wantRun-1) > 0.1 {
			t.Errorf("share %g, burst %g: %g in a row, want %g", tt.share, tt.burst, got, tt.wantRun)
		}
	}
}

// TestCondition checks the share of bad probes and how many follow each other.
// For a share of a half the chance that two are bad is known exactly: 1/4 +
// asin(r)/2pi, with r their correlation (Sheppard 1899).
func TestCondition(t *testing.T) {
	t.Parallel()
	const n = 1_000_000
	const step = 15_000
	for _, tt := range []struct {
		share  float64
		memory time.Duration
	}{{0.5, 30 * time.Second}, {0.5, 5 * time.Minute}, {0.01, time.Minute}} {
		var c condition
		random := rand.New(rand.NewPCG(1, 2))
		bad, both, before := 0.0, 0.0, false
		for i := range int64(n) {
			is := c.draw(random, tt.share, tt.memory, (i+1)*step)
			if is {
				bad++
			}
			if is && before {
				both++
			}
			before = is
		}
		kept := math.Exp(-step / float64(tt.memory.Milliseconds()))
		// Five standard deviations of a mean of draws with this correlation.
		spread := 5 * math.Sqrt(tt.share*(1-tt.share)/n*(1+kept)/(1-kept))
		if got := bad / n; math.Abs(got-tt.share) > spread {
			t.Errorf("share %g, memory %s: %g are bad, want within %g", tt.share, tt.memory, got, spread)
		}
		if want := 0.25 + math.Asin(kept)/(2*math.Pi); tt.share == 0.5 && math.Abs(both/n-want) > spread {
			t.Errorf("memory %s: %g follow a bad one, want %g", tt.memory, both/n, want)
		}
	}
}

package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Evaluations are 30 s apart; "x" holds, "." does not. The marks of fires are
// those of the evaluations at which an alert begins to fire.
func TestInstanceStep(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		hold, keep int64 // seconds
		holds      string
		fires      string
	}{
		{name: "at once", holds: "..x..", fires: "..!.."},
		{name: "once while it lasts", holds: "xxxx", fires: "!..."},
		{name: "anew without keep", holds: "x.x", fires: "!.!"},
		{name: "for is a time, not a number", hold: 60, holds: "xxxx", fires: "..!."},
		{name: "for begins anew after a gap", hold: 60, holds: "xx.xxx", fires: ".....!"},
		{name: "keep outlasts a gap", keep: 60, holds: "x.x.x", fires: "!...."},
		{name: "keep runs out", keep: 60, holds: "x...x", fires: "!...!"},
		{name: "keep is counted from the end of each gap", keep: 60, holds: "x..x..x", fires: "!......"},
		{name: "keep does not hold what was pending", hold: 30, keep: 300, holds: "x.xx", fires: "...!"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var a instance
			got := ""
			for i, c := range tt.holds {
				if a.step(int64(i+1)*30_000, c == 'x', tt.hold*1000, tt.keep*1000) {
					got += "!"
				} else {
					got += "."
				}
			}
			if got != tt.fires {
				t.Errorf("fires %q, want %q", got, tt.fires)
			}
		})
	}
}

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

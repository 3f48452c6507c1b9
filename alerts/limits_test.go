package alerts

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLimits(t *testing.T) {
	const s, m = time.Second, time.Minute
	f := func(modules map[string]time.Duration, want ...string) {
		t.Helper()
		if d := cmp.Diff(want, Limits(Options{Modules: modules})); d != "" {
			t.Errorf("%v (-want +got):\n%s", modules, d)
		}
	}
	f(nil)
	f(Default().Modules)
	f(map[string]time.Duration{"a": 15 * s, "b": 30 * s})
	f(map[string]time.Duration{"a": 150 * s})
	f(map[string]time.Duration{"a": 151 * s},
		`Interval above 150s, "a" (151s): they have fewer than two probes in 5m, so that fast burns over 1h cannot fire.`)
	// A line separator in a name ends no comment.
	f(map[string]time.Duration{"a\u2028b": 4 * m},
		`Interval above 150s, "a\u2028b" (4m): they have fewer than two probes in 5m, so that fast burns over 1h cannot fire.`)
	f(map[string]time.Duration{"b": 15 * m, "a": 40 * m, "c": 15 * s},
		`Interval above 150s, "a" (40m), "b" (15m): they have fewer than two probes in 5m, so that fast burns over 1h cannot fire.`,
		`Interval above 15m, "a" (40m): fast burns over 6h go by one or two probes in 30m, and above 36m never see the ten bad ones that they ask for.`)
}

// TestLimitsAreThoseOfTheBurns computes from the guards what the texts say.
func TestLimitsAreThoseOfTheBurns(t *testing.T) {
	hour, quarter := fastBurns()[0], fastBurns()[1]
	if hour.short != "5m" || hour.fewestShort != 2 || longestForBurn1h != 150*time.Second {
		t.Errorf("two probes in 5m come at up to 150s: %+v, %s", hour, longestForBurn1h)
	}
	if quarter.short != "30m" || longestForBurn6h != 15*time.Minute {
		t.Errorf("two probes in 30m come at up to 15m: %+v, %s", quarter, longestForBurn6h)
	}
	if got := 6 * time.Hour / time.Duration(quarter.fewestLong); quarter.long != "6h" || got != 36*time.Minute {
		t.Errorf("%d probes in %s come at up to %s, not 36m", quarter.fewestLong, quarter.long, got)
	}
}

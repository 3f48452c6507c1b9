package alerts

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// atLeast returns the probability that of n independent trials at least k
// happen, each with probability p.
func atLeast(k, n int, p float64) float64 {
	sum := 0.0
	for i := k; i <= n; i++ {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(i + 1))
		c, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(a - b - c + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

var shared, quality = readRows(Options{}, defaultSet), readRows(Options{}, "quality")

// number returns a number that the rows have by a name.
func number(name string) float64 {
	text, ok := shared.Let[name]
	if !ok {
		text = quality.Let[name]
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return v
}

// badMinuteWindow is over how many minutes bad ones are counted.
const badMinuteWindow = 30

// enoughBadMinutes is what the recording rule asks for, and the probability
// that a minute is bad.
func enoughBadMinutes(probes, objective float64) (int, float64) {
	p := 1 - math.Pow(objective, probes/badMinuteWindow)
	mean := badMinuteWindow * p
	return int(math.Ceil(mean + number("bad_minute_sigmas")*math.Sqrt(mean*(1-p)) + number("bad_minute_extra"))), p
}

// TestBadMinutes checks that chance alone does not make that many bad minutes,
// and that some 17 % of bad probes, as when everything takes twice as long,
// make them before long.
func TestBadMinutes(t *testing.T) {
	for _, objective := range []float64{0.9, 0.95, 0.98, 0.99, 0.995, 0.999} {
		for _, probes := range []float64{360, 240, 120, 60, 30, 6, 3} {
			enough, p := enoughBadMinutes(probes, objective)
			if alpha := atLeast(enough, badMinuteWindow, p); alpha > 5e-4 {
				t.Errorf("objective %g, %g probes: %d of %d bad minutes are chance in %.2g of the looks", objective, probes, enough, badMinuteWindow, alpha)
			}
		}
	}
	// By interval in seconds, from the simulation behind these rules.
	for interval, want := range map[int]int{15: 8, 30: 6, 60: 5} {
		probes := 1800 / float64(interval)
		enough, _ := enoughBadMinutes(probes, 0.99)
		if enough != want {
			t.Errorf("%d s: %d bad minutes, want %d", interval, enough, want)
		}
		p := 1 - math.Pow(1-0.174, probes/badMinuteWindow)
		if power := atLeast(enough, badMinuteWindow, p); power < 0.6 {
			t.Errorf("%d s: 17 %% bad probes for half an hour are found with a probability of only %.2f", interval, power)
		}
	}
}

// TestObjectivesTooLooseForBadMinutes checks which objectives ask for more bad
// minutes than there are. The share q of good minutes at which
// 30 (1-q) + 4 sqrt(30 q (1-q)) + 2 is 30 solves 1380 q² - 600 q + 4 = 0, which
// is 0.428; q is the objective to the power of the probes in a minute.
func TestObjectivesTooLooseForBadMinutes(t *testing.T) {
	for interval, loosest := range map[int]float64{5: 0.932, 15: 0.809, 30: 0.654, 60: 0.428} {
		probes := 1800 / float64(interval)
		if enough, _ := enoughBadMinutes(probes, loosest-0.005); enough <= badMinuteWindow {
			t.Errorf("%d s, objective just below %g: %d bad minutes suffice", interval, loosest, enough)
		}
		if enough, _ := enoughBadMinutes(probes, loosest+0.005); enough > badMinuteWindow {
			t.Errorf("%d s, objective just above %g: %d bad minutes are asked for", interval, loosest, enough)
		}
	}
}

// burn is a pair of windows over which the error budget is spent too fast.
type burn struct {
	hours  int     // of the long window
	rate   float64 // of spending, as a multiple of what the objective allows
	fewest int     // bad probes in the long window
}

func burns(t *testing.T) []burn {
	all := []burn{
		{1, number("burn_1h_rate"), int(number("burn_1h_fewest"))},
		{6, number("burn_6h_rate"), int(number("burn_6h_fewest"))},
	}
	for _, v := range shared.Lists["slow_burns"] {
		rate, err := strconv.ParseFloat(v["rate"], 64)
		if err != nil {
			t.Fatal(err)
		}
		fewest, err := strconv.Atoi(v["fewest"])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, burn{map[string]int{"1d": 24, "3d": 72}[v["long"]], rate, fewest})
	}
	return all
}

// TestFewestBadProbes checks that at the strictest objectives and the rarest
// probes chance does not reach the fewest bad probes of a burn rate.
func TestFewestBadProbes(t *testing.T) {
	for _, b := range burns(t) {
		for _, objective := range []float64{0.99, 0.999} {
			for _, perHour := range []int{60, 120, 240, 720} {
				n := perHour * b.hours
				share := min(b.rate*(1-objective), number("highest_burn"))
				need := max(b.fewest, int(share*float64(n))+1)
				alpha := atLeast(need, n, 1-objective)
				// The last one finds what is just over the objective: its
				// long duration and keeping are against flapping.
				if alpha > 1e-3 && b.rate != 1 {
					t.Errorf("%d h, objective %g, %d probes an hour: %.2g", b.hours, objective, perHour, alpha)
				}
			}
		}
	}
}

// TestFewestForMedian computes how often the medians of two samples of the
// fewest probes differ by a factor of 1.5 by chance, where the logarithm of
// TTFT is normal with a standard deviation of 0.5.
func TestFewestForMedian(t *testing.T) {
	// The median of n has a standard deviation of about 1.2533 / sqrt(n).
	sd := 1.2533 * 0.5 / math.Sqrt(fewestForMedian) * math.Sqrt2
	if p := math.Erfc(math.Log(1.5)/sd/math.Sqrt2) / 2; p > 2e-4 {
		t.Errorf("a ratio of 1.5 is chance in %.2g of the looks", p)
	}
}

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
		`Interval above 150s, "a" (151s): they have fewer than two probes in 5m, so that only budgets over 6h and more page for them.`)
	// A line separator in a name ends no comment.
	f(map[string]time.Duration{"a\u2028b": 4 * m},
		`Interval above 150s, "a\u2028b" (4m): they have fewer than two probes in 5m, so that only budgets over 6h and more page for them.`)
	f(map[string]time.Duration{"b": 15 * m, "a": 40 * m, "c": 15 * s},
		`Interval above 150s, "a" (40m), "b" (15m): they have fewer than two probes in 5m, so that only budgets over 6h and more page for them.`,
		`Interval above 15m, "a" (40m): budgets over 6h go by one or two probes in 30m, and above 36m never see the ten bad ones that they ask for.`)
}

// TestLimitsAreThoseOfTheBurns computes from the guards what the texts say.
func TestLimitsAreThoseOfTheBurns(t *testing.T) {
	if longestForBurn1h != 150*time.Second || longestForBurn6h != 15*time.Minute {
		t.Errorf("two probes in 5m and 30m come at up to 150s and 15m: %s, %s", longestForBurn1h, longestForBurn6h)
	}
	if got := 6 * time.Hour / time.Duration(number("burn_6h_fewest")); got != 36*time.Minute {
		t.Errorf("the fewest bad probes in 6h come at up to %s, not 36m", got)
	}
}

// enoughMissed is what the alert asks for of n checks of which a share
// fails as a rule.
func enoughMissed(n, usual float64) int {
	expected := n * usual
	return int(math.Ceil(expected + number("check_sigmas")*math.Sqrt(expected*(1-usual)) + number("check_extra")))
}

// TestQualityDrop checks that chance alone does not make that many answers fail
// their check, and that a drop which users would notice does before long.
func TestQualityDrop(t *testing.T) {
	drop, fewestChecks := number("smallest_quality_drop"), int(number("fewest_checks"))
	for _, usual := range []float64{0.001, 0.01, 0.05, 0.1, 0.3, 0.6} {
		for _, n := range []int{fewestChecks, 60, 120, 360, 720} {
			enough := max(enoughMissed(float64(n), usual), int((usual+drop)*float64(n))+1)
			if alpha := atLeast(enough, n, usual); alpha > 3e-4 {
				t.Errorf("%d checks, %g fail as a rule: %d are chance in %.2g of the looks", n, usual, enough, alpha)
			}
		}
	}
	f := func(n int, usual, now float64) {
		t.Helper()
		enough := max(enoughMissed(float64(n), usual), int((usual+drop)*float64(n))+1)
		if power := atLeast(enough, n, now); power < 0.8 {
			t.Errorf("%d checks, from %g to %g: found with a probability of only %.2f", n, usual, now, power)
		}
	}
	// An hour and six hours of a probe every 30 s.
	f(120, 0.001, 0.1)
	f(120, 0.1, 0.3)
	f(720, 0.1, 0.2)
	// Six hours of the built-in module tool-call.
	f(72, 0.01, 0.15)
	// As few checks as are looked at.
	f(fewestChecks, 0.001, 0.2)
	f(fewestChecks, 0.1, 0.5)
}

// TestAnswersBroken computes how often chance alone makes half an hour look broken, of
// independent answers whose hours deviate as much as such answers do. 90 days are 4320
// half hours; the factor of 3 stands for those that overlap.
func TestAnswersBroken(t *testing.T) {
	fewestChecks := int(number("fewest_checks"))
	// enough is how many of n answers must be wrong.
	enough := func(n int, usual float64) int {
		spread := math.Sqrt(usual * (1 - usual) / float64(2*n)) // of an hour
		return int((usual+max(number("broken_drop"), number("broken_spreads")*spread))*float64(n)) + 1
	}
	for _, usual := range []float64{0.01, 0.05, 0.1, 0.2, 0.4} {
		for _, n := range []int{fewestChecks, 60, 120, 360} {
			if alpha := atLeast(enough(n, usual), n, usual); alpha*4320*3 > 1 {
				t.Errorf("%d answers of which %g are wrong as a rule: %.2g pages in 90 days", n, usual, alpha*4320*3)
			}
		}
	}
	for _, usual := range []float64{0.01, 0.05, 0.1, 0.2} {
		if power := atLeast(enough(120, usual), 120, 0.5+usual/2); power < 0.95 {
			t.Errorf("half of the right answers become wrong, from %g: found with a probability of %.2f", usual, power)
		}
	}
}

package alerts

import (
	"math"
	"strconv"
	"testing"
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

// enoughBadMinutes is what the recording rule asks for, and the probability
// that a minute is bad.
func enoughBadMinutes(probes, objective float64) (int, float64) {
	p := 1 - math.Pow(objective, probes/badMinuteWindow)
	mean := badMinuteWindow * p
	return int(math.Ceil(mean + badMinuteSigmas*math.Sqrt(mean*(1-p)) + badMinuteExtra)), p
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

// TestFewestBadProbes checks that at the strictest objectives and the rarest
// probes chance does not reach the fewest bad probes of a burn rate.
func TestFewestBadProbes(t *testing.T) {
	hours := map[string]int{"1h": 1, "6h": 6, "1d": 24, "3d": 72}
	for _, b := range append(fastBurns(), slowBurns()...) {
		rate, err := strconv.ParseFloat(b.rate, 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, objective := range []float64{0.99, 0.999} {
			for _, perHour := range []int{60, 120, 240, 720} {
				n := perHour * hours[b.long]
				share := min(rate*(1-objective), highestBurn)
				need := max(b.fewestLong, int(share*float64(n))+1)
				alpha := atLeast(need, n, 1-objective)
				// The last one finds what is just over the objective: its
				// long duration and keeping are against flapping.
				if alpha > 1e-3 && b.rate != "1" {
					t.Errorf("%s, objective %g, %d probes an hour: %.2g", b.long, objective, perHour, alpha)
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

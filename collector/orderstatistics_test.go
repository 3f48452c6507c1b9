package collector

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// exactBounds returns what fewestSlow and mostSlow must, in whole numbers: the
// ways in which at least j of n samples are in the slowest hundredth, out of
// 100^n, are what is left of these after the sum of (n over i) × 99^(n-i).
func exactBounds(n int) (fewest, most int) {
	power := func(base int64, exponent int) *big.Int {
		return new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(exponent)), nil)
	}
	all := power(100, n)
	left := new(big.Int).Set(all)
	for j := 0; ; j++ {
		percent := new(big.Int).Mul(left, big.NewInt(100))
		if percent.Cmp(new(big.Int).Mul(all, big.NewInt(95))) >= 0 {
			most = j
		}
		if percent.Cmp(new(big.Int).Mul(all, big.NewInt(5))) <= 0 {
			return j, most
		}
		ways := new(big.Int).Binomial(int64(n), int64(j))
		left.Sub(left, ways.Mul(ways, power(99, n-j)))
	}
}

func TestBoundsAreExact(t *testing.T) {
	sizes := []int{1440, 2880, 5760}
	for n := range maxWindowSamples {
		sizes = append(sizes, n+1)
	}
	for _, n := range sizes {
		fewest, most := exactBounds(n)
		if got := fewestSlow(n); got != fewest {
			t.Errorf("of %d samples %d must be slow, want %d", n, got, fewest)
		}
		if got := mostSlow(n); got != most {
			t.Errorf("of %d samples at least %d are slow, want %d", n, got, most)
		}
	}
}

// Values of published tables of the binomial distribution.
func TestBounds(t *testing.T) {
	f := func(name string, bound func(int) int, want map[int]int) {
		t.Helper()
		for n, k := range want {
			if got := bound(n); got != k {
				t.Errorf("%s of %d is %d, want %d", name, n, got, k)
			}
		}
	}
	f("fewest over T that prove a p99 over T", fewestSlow, map[int]int{
		5: 1, 10: 2, 20: 2, 30: 2, 60: 3, 120: 4, 240: 6, 360: 8, 720: 13, 1440: 22, 5760: 71,
	})
	f("most over T with which the p99 is proven not to be", func(n int) int { return mostSlow(n) - 1 }, map[int]int{
		1: -1, 298: -1, 299: 0, 360: 0, 720: 2, 1440: 7, 5760: 44,
	})
}

func TestRanks(t *testing.T) {
	f := func(n int, want [4]int) {
		t.Helper()
		for i, k := range want {
			if got := windowStat(i).rank(n); got != k {
				t.Errorf("%s of %d is rank %d, want %d", windowStats()[i], n, got, k)
			}
		}
	}
	f(0, [4]int{})
	f(1, [4]int{0, 0, 1, 0})
	f(9, [4]int{0, 0, 8, 0})
	f(10, [4]int{5, 0, 9, 0})
	f(11, [4]int{6, 0, 10, 0})
	f(99, [4]int{50, 0, 96, 0})
	f(100, [4]int{50, 99, 97, 0})
	f(298, [4]int{149, 296, 292, 0})
	f(299, [4]int{150, 297, 293, 299})
	f(720, [4]int{360, 713, 708, 718})
	f(1024, [4]int{512, 1014, 1008, 1020})

	for n := 299; n <= maxWindowSamples; n++ {
		low, mid, high := statP99Lower.rank(n), statP99.rank(n), statP99Upper.rank(n)
		if low > mid || mid > high || high > n || statP50.rank(n) >= low {
			t.Errorf("ranks of %d: %d, %d and %d are not in order", n, low, mid, high)
		}
		if 100*mid < 99*n || 100*(mid-1) >= 99*n {
			t.Errorf("%d of %d is not the first that 99 %% are not above", mid, n)
		}
	}
}

// Each bound holds in 95 of 100 windows or more, whatever the distribution;
// here the samples are uniform, so that the 99th percentile is 0.99.
func TestBoundsHold(t *testing.T) {
	const windows, n = 4000, 300
	r := rand.New(rand.NewPCG(1, 2))
	var lower, upper int
	samples := make([]float64, n)
	for range windows {
		for i := range samples {
			samples[i] = r.Float64()
		}
		slices.Sort(samples)
		if samples[statP99Lower.rank(n)-1] <= 0.99 {
			lower++
		}
		if samples[statP99Upper.rank(n)-1] >= 0.99 {
			upper++
		}
	}
	for name, held := range map[string]int{"lower": lower, "upper": upper} {
		if share := float64(held) / windows; share < 0.94 || share > 0.99 {
			t.Errorf("the %s bound held in %.1f %% of windows", name, 100*share)
		}
	}
}

package stats

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

const alpha = 0.05

// exactBounds returns in whole numbers how many of n samples above a limit prove
// that the 99th percentile is, and how many at most with which it is proven not to be:
// the ways in which at least j of n samples are in the largest hundredth, out of
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

func TestRankBoundsAreExact(t *testing.T) {
	sizes := []int{1440, 2880, 5760}
	for n := range 1024 {
		sizes = append(sizes, n+1)
	}
	for _, n := range sizes {
		fewest, most := exactBounds(n)
		lower, upper := n+1-fewest, 0
		if most > 0 {
			upper = n + 1 - most
		}
		if l, u := RankBounds(n, 0.99, alpha); l != lower || u != upper {
			t.Errorf("of %d samples ranks %d and %d bound the 99th percentile, want %d and %d", n, l, u, lower, upper)
		}
	}
}

// The lower rank of the median is the greatest k with
// (n over 0) + ... + (n over k-1) <= 2.5 % of 2^n, in whole numbers. The upper one is
// as far from the other end.
func TestRankBoundsOfTheMedianAreExact(t *testing.T) {
	sizes := []int{500, 1000, 1100, 2000, 5000}
	for n := range 100 {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		all := new(big.Int).Lsh(big.NewInt(1), uint(n))
		want, sum, ways := 0, new(big.Int), big.NewInt(1) // n over want
		for {
			sum.Add(sum, ways)
			if new(big.Int).Mul(sum, big.NewInt(40)).Cmp(all) > 0 {
				break
			}
			ways.Mul(ways, big.NewInt(int64(n-want)))
			want++
			ways.Quo(ways, big.NewInt(int64(want)))
		}
		upper := 0
		if want > 0 {
			upper = n + 1 - want
		}
		if l, u := RankBounds(n, 0.5, 0.025); l != want || u != upper {
			t.Errorf("of %d samples ranks %d and %d bound the median, want %d and %d", n, l, u, want, upper)
		}
	}
}

// Values of published tables of the sign test at 95 %.
func TestRankBoundsOfTheMedian(t *testing.T) {
	for n, want := range map[int]int{5: 0, 6: 1, 8: 1, 9: 2, 12: 3, 15: 4, 20: 6, 25: 8, 30: 10, 40: 14, 50: 18, 60: 22} {
		if got, _ := RankBounds(n, 0.5, 0.025); got != want {
			t.Errorf("of %d samples rank %d, want %d", n, got, want)
		}
	}
}

// TestRankBounds compares with hand arithmetic and with a table of the exact
// binomial test (share of samples over a threshold above 1 %, at 5 %).
func TestRankBounds(t *testing.T) {
	f := func(n int, p float64, lower, upper int) {
		t.Helper()
		if l, u := RankBounds(n, p, alpha); l != lower || u != upper {
			t.Errorf("%d samples, quantile %g: ranks %d and %d, want %d and %d", n, p, l, u, lower, upper)
		}
	}
	// 0.5^4 = 6.25 % is too often, 0.5^5 = 3.1 % is not.
	f(0, 0.5, 0, 0)
	f(4, 0.5, 0, 0)
	f(5, 0.5, 1, 5)
	// (1 + 8) / 2^8 = 3.5 %, (1 + 8 + 28) / 2^8 = 14 %.
	f(8, 0.5, 2, 7)
	// (1+20+190+1140+4845) / 2^20 = 0.6 %, with 15504 2.07 %, with 38760 5.8 %.
	f(20, 0.5, 6, 15)
	// 0.99^298 = 5.003 % is too often, 0.99^299 = 4.95 % is not.
	f(298, 0.99, 292, 0)
	f(299, 0.99, 293, 299)
	// Of n samples the k highest prove that the quantile is not below them.
	for n, k := range map[int]int{5: 1, 10: 2, 20: 2, 30: 2, 60: 3, 120: 4, 240: 6} {
		f(n, 0.99, n+1-k, 0)
	}
	// At most so many of n above a threshold prove that it is not exceeded.
	f(360, 0.99, 360+1-8, 360)
	f(720, 0.99, 720+1-13, 720-2)
	f(1440, 0.99, 1440+1-22, 1440-7)
	f(5760, 0.99, 5760+1-71, 5760-44)
}

// Each bound holds in 95 of 100 windows or more, whatever the distribution;
// here the samples are uniform, so that the 99th percentile is 0.99.
func TestRankBoundsHold(t *testing.T) {
	const windows, n = 4000, 300
	r := rand.New(rand.NewPCG(1, 2))
	var lower, upper int
	samples := make([]float64, n)
	l, u := RankBounds(n, 0.99, alpha)
	for range windows {
		for i := range samples {
			samples[i] = r.Float64()
		}
		slices.Sort(samples)
		if samples[l-1] <= 0.99 {
			lower++
		}
		if samples[u-1] >= 0.99 {
			upper++
		}
	}
	for name, held := range map[string]int{"lower": lower, "upper": upper} {
		if share := float64(held) / windows; share < 0.94 || share > 0.99 {
			t.Errorf("the %s bound held in %.1f %% of windows", name, 100*share)
		}
	}
}

func TestRank(t *testing.T) {
	f := func(n int, p float64, want int) {
		t.Helper()
		if got := Rank(n, p); got != want {
			t.Errorf("quantile %g of %d samples has rank %d, want %d", p, n, got, want)
		}
	}
	f(1, 0.5, 1)
	f(1, 0.99, 1)
	f(2, 0.5, 1)
	f(5, 0.5, 3)
	f(99, 0.99, 99)
	f(100, 0.99, 99)
	f(101, 0.99, 100)
	f(700, 0.99, 693)
	for n := 1; n <= 1024; n++ {
		if k := Rank(n, 0.99); 100*k < 99*n || 100*(k-1) >= 99*n {
			t.Errorf("%d of %d is not the first that 99 %% do not exceed", k, n)
		}
	}
}

func TestMinSamples(t *testing.T) {
	f := func(p float64, want int) {
		t.Helper()
		if got := MinSamples(p, alpha); got != want {
			t.Errorf("quantile %g: %d samples, want %d", p, got, want)
		}
	}
	f(0.99, 299)
	f(0.95, 59)
	f(0.5, 5)
	f(0.01, 1)
}

// Quantiles of published tables.
func TestStudentT(t *testing.T) {
	for freedom, want := range map[int]float64{17: 2.1098, 18: 2.1009, 28: 2.0484, 60: 2.0003, 120: 1.9799, 1000000: 1.9600} {
		if got := StudentT95(freedom); math.Abs(got-want) > 0.001 {
			t.Errorf("%d degrees of freedom: %v, want %v", freedom, got, want)
		}
	}
}

// The sums of the binomial distribution, of 5, 10, 20 and 60 trials.
func TestAtLeast(t *testing.T) {
	for _, c := range []struct {
		n, k    int
		p, want float64
	}{
		{5, 0, 0.3, 1},
		{1, 1, 0.01, 0.01},
		{5, 2, 0.01, 1 - math.Pow(0.99, 5) - 5*0.01*math.Pow(0.99, 4)},
		{10, 10, 0.5, 1.0 / 1024},
		{10, 5, 0.5, 638.0 / 1024},
		{20, 1, 0.1, 1 - math.Pow(0.9, 20)},
		{1000, 1, 0.5, 1},
		{5, 6, 0.5, 0},
	} {
		if got := AtLeast(c.n, c.k, c.p); math.Abs(got-c.want) > 1e-10 {
			t.Errorf("of %d at least %d with %g: %g, want %g", c.n, c.k, c.p, got, c.want)
		}
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 12345678: "12,345,678"} {
		if got := Grouped(n); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// By hand: t of 9 degrees over the normal quantile is 2.2622/1.96, its square 1.332. Where batches of ten are all so or all not, by
// turns, the squares sum to 10/4, and the factor is 2.5/9 * 10 * 4 * 1.332 = 14.8. Where five such batches follow each other, the
// correlation is (8 - 1)/10 + 1/10, and the factor nine times as large.
func TestEffective(t *testing.T) {
	f := func(name string, want, n int, is func(i int) bool) {
		t.Helper()
		indices := make([]int, n)
		for i := range indices {
			indices[i] = i
		}
		if got := Effective(indices, is); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	even := func(i int) bool { return i%2 == 0 }
	f("too few", 0, 19, even)
	f("every other one", 100, 100, even)
	f("all", 100, 100, func(int) bool { return true })
	f("batches by turns", 6, 100, func(i int) bool { return i/10%2 == 0 })
	f("five batches and five others", 0, 100, func(i int) bool { return i < 50 })
}

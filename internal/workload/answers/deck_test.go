package answers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func weights(w ...float64) func(int) float64 { return func(i int) float64 { return w[i] } }

// turnsOf returns how often each of n entries came in so many draws.
func turnsOf(d *Deck, n, draws int) []int {
	turns := make([]int, n)
	for range draws {
		turns[d.Next()]++
	}
	return turns
}

func TestDeckRounds(t *testing.T) {
	// want are the turns of a round, which are always the same where weights are
	// whole multiples of the least.
	f := func(w []float64, want ...int) {
		t.Helper()
		draws := 0
		for _, n := range want {
			draws += n
		}
		for seed := range uint64(50) {
			d := NewDeck(len(w), weights(w...), newRand(seed))
			for round := range 20 {
				if got := turnsOf(d, len(w), draws); !slices.Equal(got, want) {
					t.Fatalf("%v, seed %d, round %d: turns %v, want %v", w, seed, round, got, want)
				}
			}
		}
	}
	f([]float64{1}, 1)
	f([]float64{1, 1, 1}, 1, 1, 1)
	f([]float64{0.1, 0.1, 0.1}, 1, 1, 1)
	f([]float64{1, 2, 1}, 1, 2, 1)
	f([]float64{2, 2}, 1, 1)
	f([]float64{3, 6, 9}, 1, 2, 3)
	f([]float64{0.25, 1}, 1, 4)
	f([]float64{1e300, 1e300}, 1, 1)
}

func TestDeckOfAlikes(t *testing.T) {
	for _, n := range []int{1, 2, 44, 1000} {
		d := NewDeck(n, nil, newRand(3))
		for range 5 {
			if turns := turnsOf(d, n, n); slices.Min(turns) != 1 || slices.Max(turns) != 1 {
				t.Errorf("%d entries: some came %d times in a round, some %d", n, slices.Min(turns), slices.Max(turns))
			}
		}
	}
}

// Whatever the weights: every entry comes in each round, about as often as its
// weight says, and its share is right in the long run.
func TestDeckShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.SliceOfN(rapid.Float64Range(0.1, 5), 1, 8).Draw(t, "weights")
		d := NewDeck(len(w), weights(w...), newRand(rapid.Uint64().Draw(t, "seed")))
		lightest, sum := slices.Min(w), 0.0
		for _, x := range w {
			sum += x
		}
		size := int(math.Ceil(sum/lightest - 1e-6)) // draws in a round
		const rounds = 100
		all := make([]int, len(w))
		for range rounds {
			turns := turnsOf(d, len(w), size)
			for i, n := range turns {
				due := float64(size) * w[i] / sum
				if n < 1 || math.Abs(float64(n)-due) > 1+1e-6 {
					t.Fatalf("entry %d of %v came %d times in a round, want about %.2f", i, w, n, due)
				}
				all[i] += n
			}
		}
		for i, n := range all {
			due := rounds * float64(size) * w[i] / sum
			// A round is off by at most 1, at random: its deviation is at most 1/2.
			if off := math.Abs(float64(n) - due); off > 6*0.5*math.Sqrt(rounds) {
				t.Fatalf("entry %d of %v came %d times in %d rounds, want about %.1f", i, w, n, rounds, due)
			}
		}
	})
}

// A round is bounded, however far weights are apart, and shares stay right.
func TestDeckOfDistantWeights(t *testing.T) {
	f := func(a, b, share float64) {
		t.Helper()
		const draws = 1_000_000
		turns := turnsOf(NewDeck(2, weights(a, b), newRand(5)), 2, draws)
		if got := float64(turns[0]) / draws; math.Abs(got-share) > 2e-6 {
			t.Errorf("%g and %g: a share of %g for the first, want %g", a, b, got, share)
		}
	}
	f(1, 1e5, 1/(1e5+1))
	f(1, 1e6, 1/(1e6+1))
	f(1e-300, 1e300, 1/(1e6+1))
}

func TestDeckIsDeterministic(t *testing.T) {
	draw := func(seed uint64) string {
		d := NewDeck(20, nil, newRand(seed))
		order := make([]int, 100)
		for i := range order {
			order[i] = d.Next()
		}
		return fmt.Sprint(order)
	}
	if once, again := draw(1), draw(1); once != again {
		t.Error("two orders with the same seed")
	}
	if draw(1) == draw(2) {
		t.Error("the same order with another seed")
	}
}

// Rounds are in different orders, so that nothing that comes at regular times
// always meets the same entry.
func TestDeckShufflesEachRound(t *testing.T) {
	d := NewDeck(10, nil, newRand(1))
	orders := map[string]bool{}
	for range 50 {
		order := make([]int, 10)
		for i := range order {
			order[i] = d.Next()
		}
		orders[fmt.Sprint(order)] = true
	}
	if len(orders) != 50 {
		t.Errorf("%d orders in 50 rounds", len(orders))
	}
}

func BenchmarkDeck(b *testing.B) {
	for _, n := range []int{44, MaxDeck} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			d := NewDeck(n, nil, newRand(1))
			for b.Loop() {
				d.Next()
			}
		})
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

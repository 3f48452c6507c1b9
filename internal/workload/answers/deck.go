package answers

import (
	"math"
	"math/rand/v2"
)

const (
	// MaxDeck is the most entries of a Deck.
	MaxDeck = 100_000
	// maxRound bounds a round, at 4 bytes for each turn.
	maxRound = 4 * MaxDeck
	// maxRatio is how many times as heavy as the lightest an entry can be.
	maxRatio = 1e6
)

// Deck draws from a list in rounds. In each round every entry has its turn
// before the next begins: the lightest once, and one that is twice as heavy
// twice. Between that, such as one of 1.5 times the weight, an entry comes one
// time more in some rounds than in others, so that its share is right on the
// average. The order within a round is random. Where weights are so far apart
// that a round would be too long, light entries miss rounds, and their share is
// still right. It is not safe for concurrent use.
type Deck struct {
	entries int
	weight  func(i int) float64 // relative to the lightest
	total   float64             // of the weights
	rng     *rand.Rand
	round   []int32 // the entries in the order of their turns
	next    int     // the turn that is next
}

// NewDeck returns a Deck of the entries 0 to n-1; n is 1 to MaxDeck. weight returns
// the weight of an entry, positive and finite, and the same at any time; nil
// makes all alike.
func NewDeck(n int, weight func(i int) float64, rng *rand.Rand) *Deck {
	d := &Deck{entries: n, rng: rng, weight: func(int) float64 { return 1 }}
	if weight != nil {
		lightest := math.Inf(1)
		for i := range n {
			lightest = min(lightest, weight(i))
		}
		d.weight = func(i int) float64 { return min(weight(i)/lightest, maxRatio) }
	}
	for i := range n {
		d.total += d.weight(i)
	}
	return d
}

// Next returns the entry whose turn it is.
func (d *Deck) Next() int {
	if d.next == len(d.round) {
		d.deal()
	}
	d.next++
	return int(d.round[d.next-1])
}

// deal begins a round. The entries lie side by side, each as wide as its weight;
// turns at equal distances, from a random start, fall on the entries whose turns
// they are. Distances of at most 1, the least width, miss none.
func (d *Deck) deal() {
	// A little less than what would be one turn more for a rounding error.
	turns := min(int(math.Ceil(d.total-1e-6)), maxRound)
	distance := d.total / float64(turns)
	// 32 bits are few enough for sums with the number of a turn to be exact.
	start := float64(d.rng.Uint32()) / (1 << 32)
	d.round, d.next = d.round[:0], 0
	for i, end := 0, 0.0; i < d.entries; i++ {
		end += d.weight(i)
		for len(d.round) < turns && (float64(len(d.round))+start)*distance < end {
			d.round = append(d.round, int32(i))
		}
	}
	d.rng.Shuffle(len(d.round), func(i, j int) { d.round[i], d.round[j] = d.round[j], d.round[i] })
}

package api

import "github.com/valyala/fastjson"

// maxKeptNumbers is how many numbers of a reply are kept: 32 vectors of 8,192.
const maxKeptNumbers = 262_144

// ValueDecoder is the Decoder of a protocol that embeds or ranks. The numbers of a
// reply are measured and forgotten unless it is asked to keep them.
type ValueDecoder interface {
	Decoder
	// KeepValues has the decoder keep the numbers of the frames that follow.
	KeepValues()
	// Values returns those of the latest frame: a vector for each input, or one
	// vector with the score of each, in the order of the inputs. nil means that the
	// reply has none or too many, or does not show which input each belongs to.
	Values() [][]float32
}

// inOrder returns what items hold in the order of the inputs: that of their indexes
// or, where no item has an index and none needs one, that of the items; nil where the
// indexes are no permutation.
func inOrder[T any](held []T, items []*fastjson.Value, indexed bool) []T {
	if len(held) == 0 || len(held) != len(items) {
		return nil
	}
	for _, item := range items {
		indexed = indexed || item.Get("index") != nil
	}
	if !indexed {
		return held
	}
	ordered, seen := make([]T, len(held)), make([]bool, len(held))
	for i, item := range items {
		place := count(item.Get("index"))
		if place == Unknown || place >= len(held) || seen[place] {
			return nil
		}
		ordered[place], seen[place] = held[i], true
	}
	return ordered
}

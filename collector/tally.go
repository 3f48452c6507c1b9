package collector

import (
	"cmp"
	"slices"
)

// tally counts by small numbers, in little room: only those that were counted take any,
// and of the buckets and outcomes of a series most never are. Sorted by key.
type tally []tallied

// tallied is a key, which fits 16 bits, in the upper bits, and a count, which fits 48, in
// the others.
type tallied uint64

const countBits = 48

// key returns the number that is counted by.
func (t tallied) key() int32 { return int32(int64(t) >> countBits) }

// count returns how often it was counted.
func (t tallied) count() uint64 { return uint64(t) & (1<<countBits - 1) }

// newTallied returns a count of a key.
func newTallied(key int32, count uint64) tallied {
	return tallied(int64(key)<<countBits) | tallied(count)
}

// add adds n to the count of a key.
func (t *tally) add(key int32, n uint64) {
	i, found := t.find(key)
	if found {
		(*t)[i] += tallied(n)
		return
	}
	*t = slices.Insert(*t, i, newTallied(key, n))
}

// of returns the count of a key.
func (t tally) of(key int) uint64 {
	if i, found := t.find(int32(key)); found {
		return t[i].count()
	}
	return 0
}

func (t tally) find(key int32) (i int, found bool) {
	return slices.BinarySearchFunc(t, key, func(e tallied, k int32) int { return cmp.Compare(e.key(), k) })
}

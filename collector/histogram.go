package collector

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Parameters of the native form. They are the usual ones of Prometheus: a growth of at most 1.1 from bucket to bucket,
// which means 2^(1/8) (schema 3), and client_golang's default width of the zero bucket (2^-128).
const (
	nativeFactor        = 1.1
	nativeSchema        = 3
	nativeMinSchema     = -4
	nativeMaxBuckets    = 160
	nativeZeroThreshold = 2.938735877055719e-39
)

// nativeFractions are the bucket bounds of schema 3 in [0.5, 1), the range of math.Frexp: 2^(i/8 - 1).
var nativeFractions = [8]float64{
	0.5, 0.5452538663326288, 0.5946035575013605, 0.6484197773255048,
	0.7071067811865475, 0.7711054127039704, 0.8408964152537144, 0.9170040432046711,
}

// histogram counts observations in classic buckets and, at the same time, in the sparse exponential buckets of a native
// histogram. Observations are durations in seconds, so never negative, NaN or infinite.
type histogram struct {
	bounds *[]float64 // shared, upper bounds without +Inf
	counts tally      // by index in bounds, not cumulative, without +Inf
	count  uint64
	sum    float64

	schema int32  // resolution of sparse, falls when there are too many
	zero   uint64 // observations up to nativeZeroThreshold
	// sparse are the populated buckets of the native form, by key: the upper bound of one is 2^(key × 2^-schema).
	sparse tally

	exemplars []exemplar // at most one per classic bucket, sorted by value
}

// exemplar is the latest observation of a classic bucket that has a trace.
type exemplar struct {
	value float64
	at    int64 // Unix time in ns; no time.Time, which has a pointer
	trace [16]byte
}

func newHistogram(bounds *[]float64) histogram {
	return histogram{bounds: bounds, schema: nativeSchema}
}

func (h *histogram) observe(v float64) {
	if i := h.bucketOf(v); i < len(*h.bounds) {
		h.counts.add(int32(i), 1)
	}
	h.count++
	h.sum += v
	if v <= nativeZeroThreshold {
		h.zero++
	} else {
		h.sparse.add(nativeKey(v, h.schema), 1)
	}
	if len(h.sparse) > nativeMaxBuckets && h.schema > nativeMinSchema {
		h.widen()
	}
}

// observeTraced counts v and keeps it as the exemplar of its classic bucket, unless trace is zero.
func (h *histogram) observeTraced(v float64, trace [16]byte, at time.Time) {
	h.observe(v)
	if trace == ([16]byte{}) {
		return
	}
	e := exemplar{value: v, at: at.UnixNano(), trace: trace}
	i, found := slices.BinarySearchFunc(h.exemplars, h.bucketOf(v), func(e exemplar, b int) int { return cmp.Compare(h.bucketOf(e.value), b) })
	if found {
		h.exemplars[i] = e
		return
	}
	h.exemplars = slices.Insert(h.exemplars, i, e)
}

// equals reports whether the same was observed, in the same order.
func (h *histogram) equals(other *histogram) bool {
	return h.count == other.count && h.sum == other.sum && slices.Equal(h.sparse, other.sparse)
}

// bucketOf returns the index of the classic bucket of v; len(bounds) is +Inf.
func (h *histogram) bucketOf(v float64) int { return firstFrom(*h.bounds, v) }

// firstFrom returns the index of the first of sorted bounds that is at least v. Bounds are numbers, which spares the
// comparisons with NaN of slices.BinarySearch: this is on the way of each event of a stream.
func firstFrom(bounds []float64, v float64) (i int) {
	for end := len(bounds); i < end; {
		if mid := int(uint(i+end) / 2); bounds[mid] < v {
			i = mid + 1
		} else {
			end = mid
		}
	}
	return i
}

// widen doubles the width of the sparse buckets. Very scattered observations
// may leave as many buckets as before; the next observation widens again.
func (h *histogram) widen() {
	h.schema--
	old := h.sparse
	h.sparse = h.sparse[:0] // never overtakes the reading of old
	for _, s := range old {
		key := coarser(s.key(), 1)
		if n := len(h.sparse); n > 0 && h.sparse[n-1].key() == key {
			h.sparse[n-1] += tallied(s.count())
		} else {
			h.sparse = append(h.sparse, newTallied(key, s.count()))
		}
	}
}

// nativeKey returns the key of the sparse bucket of v > 0: the smallest k with v <= 2^(k × 2^-schema).
func nativeKey(v float64, schema int32) int32 {
	frac, exp := math.Frexp(v)
	return coarser(int32(firstFrom(nativeFractions[:], frac)+(exp-1)*len(nativeFractions)), nativeSchema-schema)
}

// coarser returns the key of the bucket that holds bucket key after the width has doubled the given number of times:
// key / 2^times, rounded up, because upper bounds are inclusive.
func coarser(key, times int32) int32 {
	return (key + 1<<times - 1) >> times
}

// tally counts by small numbers, in little room: only those that were counted take any,
// and of the buckets and outcomes of a series most never are. Sorted by key.
type tally []tallied

// tallied is a key, which fits 16 bits, in the upper bits, and a count, which fits 48, in the others.
type tallied int64

const (
	countBits   = 48
	tallyGrowth = 4
)

func (t tallied) key() int32 { return int32(t >> countBits) }

func (t tallied) count() uint64 { return uint64(t) & (1<<countBits - 1) }

func newTallied(key int32, count uint64) tallied { return tallied(key)<<countBits | tallied(count) }

// add adds n to the count of a key, which ends at the largest that fits.
func (t *tally) add(key int32, n uint64) {
	i, found := t.find(key)
	if found {
		(*t)[i] = newTallied(key, min((*t)[i].count()+n, 1<<countBits-1))
		return
	}
	if len(*t) == cap(*t) { // most tallies end at some size: doubling would waste half of their room
		*t = append(make(tally, 0, len(*t)+tallyGrowth), *t...)
	}
	*t = slices.Insert(*t, i, newTallied(key, n))
}

// of returns the count of a key, and whether it was ever counted, if only with 0.
func (t tally) of(key int) (n uint64, counted bool) {
	i, found := t.find(int32(key))
	if !found {
		return 0, false
	}
	return t[i].count(), true
}

func (t tally) has(key int) bool {
	_, counted := t.of(key)
	return counted
}

// find returns where a key is, or belongs.
func (t tally) find(key int32) (i int, found bool) {
	i, _ = slices.BinarySearch(t, newTallied(key, 0))
	return i, i < len(t) && t[i].key() == key
}

package page

import (
	"iter"
	"maps"
	"slices"
	"time"
	"unsafe"

	"github.com/inference-exporter/inference_exporter/config"
)

// Bounds of what a page has put on the pages of this exporter, where each series costs those who store it long after
// it is gone.
const (
	// maxBuckets is how many buckets of a histogram are read. Those of engines have about 20.
	maxBuckets = 100
	// newShownEvery is how often the buckets of a page may change to new ones, as an upgrade of the server may
	// change them.
	newShownEvery = time.Hour
	// maxShownBuckets is how many sets of buckets of a histogram are known, so that one that was there before is
	// no new one.
	maxShownBuckets = 4
	// maxShownBackends is how many names of backends a page of a gateway may have in newShownEvery.
	maxShownBackends = 2 * maxBackends
	// maxBackendName is the longest name of a backend that is read apart, in bytes.
	maxBackendName = 128
)

// shown is what a page has put on the pages of this exporter. It outlives other ways of reading the page.
type shown struct {
	buckets map[config.Quantity][][]float64 // the latest sets of bounds
	changed time.Time                       // when one was added to others
	names   map[string]time.Time            // of backends or accelerators, and when they were last there
}

// checkBuckets takes in the histograms of a snapshot. The error is that buckets changed which had changed a short
// while ago.
func (k *shown) checkBuckets(snap *Snapshot) error {
	var fresh, changed []config.Quantity
	for q, h := range snap.Histograms {
		sets := k.buckets[q]
		if !slices.ContainsFunc(sets, func(bounds []float64) bool { return slices.Equal(bounds, h.Bounds) }) {
			fresh = append(fresh, q)
			if len(sets) > 0 {
				changed = append(changed, q)
			}
		}
	}
	if len(changed) > 0 {
		if snap.At.Sub(k.changed) < newShownEvery {
			return pageErrorf(ReasonBuckets, "the buckets of %s changed to new ones again within an hour", slices.Min(changed))
		}
		k.changed = snap.At
	}
	for _, q := range fresh {
		if k.buckets == nil {
			k.buckets = map[config.Quantity][][]float64{}
		}
		sets := append(k.buckets[q], snap.Histograms[q].Bounds)
		k.buckets[q] = slices.Clone(sets[max(0, len(sets)-maxShownBuckets):])
	}
	return nil
}

// admit takes in the names of what has series of its own on a page, each once. It reports false, and takes in none
// that is new, where they would be more than most with those of the last hour.
func (k *shown) admit(names iter.Seq[string], most int, at time.Time) bool {
	fresh := 0
	for name := range names {
		if _, known := k.names[name]; known {
			k.names[name] = at
		} else {
			fresh++
		}
	}
	maps.DeleteFunc(k.names, func(_ string, seen time.Time) bool { return at.Sub(seen) >= newShownEvery })
	if len(k.names)+fresh > most {
		return false
	}
	if k.names == nil && fresh > 0 {
		k.names = map[string]time.Time{}
	}
	for name := range names {
		k.names[name] = at
	}
	return true
}

// Bounds of what readers keep from one page to the next.
const (
	// smallState is what one reader keeps without leave, in bytes: more than twice what a server with eight ranks
	// needs.
	smallState = 64 << 10
	// maxLargeStates is what the readers of all endpoints have together beyond that.
	maxLargeStates = 32 << 20
)

// keep takes leave for what the reader keeps. Where there is none even without the series that are gone, it keeps
// nothing, and the page is one that is too large.
func (r *Reader) keep(m *mapping) error {
	if r.lease() {
		return nil
	}
	if r.fold(m, 0); r.lease() {
		return nil
	}
	size := r.size()
	r.drop()
	return pageErrorf(ReasonTooLarge, "a page of which %d KiB are to be kept, and other pages hold the memory for that", size>>10)
}

// lease reports whether there is room for what the reader keeps.
func (r *Reader) lease() bool {
	n := max(0, r.size()-smallState)
	free := r.mappings.memory.kept
	if n > r.leased && !free.TryAcquire(n-r.leased) {
		return false
	}
	if n < r.leased {
		free.Release(r.leased - n)
	}
	r.leased = n
	return true
}

// drop lets go of all that the reader keeps but what it has shown.
func (r *Reader) drop() {
	r.mappings.memory.kept.Release(r.leased)
	*r = Reader{mappings: r.mappings, shown: r.shown}
}

// size returns what the reader keeps, in bytes. Bounds of histograms count, which are usually shared.
func (r *Reader) size() int64 {
	const word = int(unsafe.Sizeof(float64(0)))
	n := cap(r.cells) * int(unsafe.Sizeof(cell{}))
	for i := range r.cells {
		c := &r.cells[i]
		n += word * (len(c.bounds) + cap(c.last))
	}
	for _, t := range r.totals {
		n += int(unsafe.Sizeof(*t)) + word*(len(t.bounds)+cap(t.rest)+cap(t.latest))
	}
	const ofMap = 2 // what a map takes for each byte of its entries, at most
	n += len(r.ranks) * (int(unsafe.Sizeof(rank{})) + ofMap*2*word)
	for _, k := range r.ranks {
		n += cap(k.marks) * word
	}
	n += cap(r.cache.past) * int(unsafe.Sizeof(use{}))
	const snapshots = 3 // of backends, which are as large as what is kept of them
	for name, b := range r.backends {
		n += len(name) + int(unsafe.Sizeof(*b)) + (1+snapshots)*int(b.size())
	}
	return int64(n)
}

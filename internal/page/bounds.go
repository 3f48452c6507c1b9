package page

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"sync"
)

// maxSharedBounds limits how many are shared: servers choose them.
const maxSharedBounds = 1000

// sharedBounds keeps bounds of histograms once, as servers of one engine have the same.
// It is safe for concurrent use.
type sharedBounds struct {
	seed maphash.Seed
	mu   sync.Mutex
	all  map[uint64][]float64
}

func newSharedBounds() *sharedBounds {
	return &sharedBounds{seed: maphash.MakeSeed(), all: map[uint64][]float64{}}
}

// of returns a copy of bounds that others may have too, and nobody changes.
func (s *sharedBounds) of(bounds []float64) []float64 {
	if len(bounds) == 0 {
		return nil
	}
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, b := range bounds {
		var bits [8]byte
		binary.LittleEndian.PutUint64(bits[:], math.Float64bits(b))
		_, _ = h.Write(bits[:])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := h.Sum64()
	if found := s.all[key]; slices.Equal(found, bounds) {
		return found
	}
	if len(s.all) >= maxSharedBounds {
		clear(s.all)
	}
	own := slices.Clone(bounds)
	s.all[key] = own
	return own
}

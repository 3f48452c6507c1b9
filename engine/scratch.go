package engine

import (
	"math"
	"slices"
)

// scratch is what the reading of a page needs and nobody keeps. It is used
// again for other pages.
type scratch struct {
	samples  []sample
	spelling []uint8     // by source, the one to prefer of those on the page
	wrong    []wrongType // families of the wrong type
	last     []byte      // the latest name of a series
	targets  []target    // what samples of that name are
	plain    []byte
	hash     []byte
	series   []series
	numbers  []float64 // what the slices of series are made of
	bad      []bool    // by source, cannot be told from this page
	models   models    // of the samples
	results  []result  // by source
	cells    []cell
}

// maxKept is for how many samples a scratch may have room to be used again.
const maxKept = 16 << 10

// reset makes the scratch ready for a page.
func (s *scratch) reset(c *mapping) {
	s.samples, s.wrong, s.series, s.numbers = s.samples[:0], s.wrong[:0], s.series[:0], s.numbers[:0]
	s.models = models{}
	s.spelling = sized(s.spelling, len(c.sources))
	for i := range s.spelling {
		s.spelling[i] = math.MaxUint8
	}
	s.bad = sized(s.bad, len(c.sources))
	s.results = sized(s.results, len(c.sources))
}

// isOfRay tells whether the page has the series of a source as Ray writes it.
func (s *scratch) isOfRay(source int) bool {
	spelled := s.spelling[source]
	return spelled != math.MaxUint8 && spelled&spelledByRay != 0
}

// sized returns a slice of n zeros in the place of b where it fits.
func sized[T any](b []T, n int) []T {
	b = slices.Grow(b[:0], n)[:n]
	clear(b)
	return b
}

// release lets go of what belongs to a page or to a reader. It returns false
// where the scratch has grown too large to be kept.
func (s *scratch) release() bool {
	s.last, s.targets, s.models = nil, nil, models{}
	clear(s.wrong)
	clear(s.series)
	clear(s.results)
	clear(s.cells)
	return cap(s.samples) <= maxKept
}

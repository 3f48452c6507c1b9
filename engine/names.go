package engine

import "bytes"

var rayPrefix = []byte("ray_")

// appendPlain appends the form of a series name that all ways to write it have
// in common: Ray and exporters that escape write `a:b` as `ray_a_b` and `a_b`.
func appendPlain(b, name []byte) []byte {
	n := len(b)
	b = append(b, bytes.TrimPrefix(name, rayPrefix)...)
	for i := n; i < len(b); i++ {
		if b[i] == ':' {
			b[i] = '_'
		}
	}
	return b
}

// plain is appendPlain for a name of a mapping.
func plain(name string) string { return string(appendPlain(nil, []byte(name))) }

// spellings is how many ways to write a name spelling tells apart.
const spellings = 4

// spelledByRay is the part of a spelling that tells that Ray writes the name.
const spelledByRay = 2

// spelling tells how a name is written, the engine's own way first: a page that
// has a series in two ways has it twice.
func spelling(name []byte) uint8 {
	var s uint8
	if bytes.IndexByte(name, ':') < 0 {
		s++
	}
	if bytes.HasPrefix(name, rayPrefix) {
		s += spelledByRay
	}
	return s
}

// seriesName returns the name at the start of a series, which may stand in
// quotes inside the braces.
func seriesName(series []byte) []byte {
	if quoted, ok := bytes.CutPrefix(series, []byte(`{"`)); ok {
		name, _, _ := bytes.Cut(quoted, []byte(`"`))
		return name
	}
	if i := bytes.IndexAny(series, "{ \t"); i >= 0 {
		return series[:i]
	}
	return series
}

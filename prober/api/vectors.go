package api

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/valyala/fastjson"
)

// vector is what is kept of a vector.
type vector struct {
	dimensions int
	norm       float64 // Euclidean
}

// vectorReader measures the vectors of a JSON text without keeping their
// numbers, of which a batch has more than a parsed text may hold. It replaces
// each array of numbers by the array of one number that is the vector's place
// in vectors.
type vectorReader struct {
	text    []byte
	vectors []vector
	decoded []byte // of base64
}

// read measures the vectors of a text, which need not be JSON.
func (r *vectorReader) read(text []byte) error {
	r.text, r.vectors = r.text[:0], r.vectors[:0]
	for len(text) > 0 {
		n := bytes.IndexAny(text, `"[`)
		if n < 0 {
			n = len(text)
		} else if text[n] == '"' {
			n += stringLen(text[n:])
		} else if v, size := vectorAt(text[n:]); size > 0 {
			if len(r.vectors) == maxValues {
				return fmt.Errorf("%w: over %d vectors", ErrProtocol, maxValues)
			}
			r.text = append(append(r.text, text[:n]...), '[')
			r.text = append(strconv.AppendInt(r.text, int64(len(r.vectors)), 10), ']')
			r.vectors = append(r.vectors, v)
			text = text[n+size:]
			continue
		} else {
			n++
		}
		r.text = append(r.text, text[:n]...)
		text = text[n:]
	}
	return nil
}

// stringLen returns the length of the JSON string that text starts with.
func stringLen(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// vectorAt measures the array of numbers that text starts with; size is its
// length in bytes, 0 if text starts with something else.
func vectorAt(text []byte) (v vector, size int) {
	sum := 0.0
	for i := 1; ; i++ {
		i += spaceLen(text[i:])
		n := numberLen(text[i:])
		f, err := strconv.ParseFloat(string(text[i:i+n]), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range is infinite
			return vector{}, 0
		}
		v.dimensions++
		sum += f * f
		i += n
		i += spaceLen(text[i:])
		if i == len(text) || text[i] != ',' && text[i] != ']' {
			return vector{}, 0
		}
		if text[i] == ']' {
			v.norm = math.Sqrt(sum)
			return v, i + 1
		}
	}
}

// spaceLen returns the length of the white space that text starts with.
func spaceLen(text []byte) int {
	for i, c := range text {
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return i
		}
	}
	return len(text)
}

// numberLen returns the length of what may be a number that text starts with.
func numberLen(text []byte) int {
	for i, c := range text {
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			return i
		}
	}
	return len(text)
}

// measured returns the vector of a value of the replaced text: the place of an
// array of numbers, or a text of little-endian 32-bit floats in base64.
func (r *vectorReader) measured(v *fastjson.Value) (vector, bool) {
	if v == nil {
		return vector{}, false
	}
	switch v.Type() {
	case fastjson.TypeArray:
		place := count(v.Get("0"))
		if place == Unknown || len(v.GetArray()) != 1 || place >= len(r.vectors) {
			return vector{}, false
		}
		return r.vectors[place], true
	case fastjson.TypeString:
		return r.base64(v.GetStringBytes())
	}
	return vector{}, false
}

// base64 measures a vector of 32-bit floats.
func (r *vectorReader) base64(text []byte) (vector, bool) {
	var err error
	r.decoded, err = base64.StdEncoding.AppendDecode(r.decoded[:0], text)
	if err != nil || len(r.decoded) == 0 || len(r.decoded)%4 != 0 {
		return vector{}, false
	}
	v, sum := vector{}, 0.0
	for b := r.decoded; len(b) > 0; b = b[4:] {
		f := float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		v.dimensions++
		sum += f * f
	}
	v.norm = math.Sqrt(sum)
	return v, true
}

// summary folds the vectors of a reply; ok is false where one has no finite
// norm.
func summary(vectors []vector) (s Vectors, ok bool) {
	for i, v := range vectors {
		s.Items++
		s.Norm += v.norm
		switch {
		case i == 0:
			s.Dimensions = v.dimensions
		case v.dimensions != s.Dimensions:
			s.Dimensions = Unknown
		}
	}
	if s.Items > 0 {
		s.Norm /= float64(s.Items)
	}
	return s, !math.IsNaN(s.Norm) && !math.IsInf(s.Norm, 0)
}

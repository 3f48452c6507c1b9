package config

import (
	"math"
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"
)

// Bytes is a number of bytes, above 0 where it is given. It is written like
// 16GB (10^9), 15GiB (2^30) or, in bytes, as a whole number.
type Bytes int64

// maxBytes bounds sizes so that a float64 holds each of them exactly.
const maxBytes = 1_000_000_000_000_000

// byteUnits are the units, large ones first.
func byteUnits() []byteUnit {
	return []byteUnit{
		{"TiB", 1 << 40},
		{"TB", 1e12},
		{"GiB", 1 << 30},
		{"GB", 1e9},
		{"MiB", 1 << 20},
		{"MB", 1e6},
		{"KiB", 1 << 10},
		{"kB", 1e3},
		{"", 1},
	}
}

type byteUnit struct {
	name  string
	bytes Bytes
}

// bytesForm is a number with a unit, or a whole one without.
var bytesForm = regexp.MustCompile(`^(?:([0-9]+(?:\.[0-9]+)?)([kMGT]B|[KMGT]iB)|([0-9]+))$`)

// bytes decodes a size. None of the file's may be 0.
func (d *decoder) bytes(n *yaml.Node, p path, out *Bytes) {
	if n.Kind != yaml.ScalarNode {
		d.errorf(p, "want a size like 16GB, 15GiB or a number of bytes, got %s", got(n))
		return
	}
	v, ok := parseBytes(n.Value)
	switch {
	case !ok:
		d.errorf(p, "want a size like 16GB, 15GiB or a number of bytes, got %s", d.gotValue(n))
	case v < 1 || v > maxBytes:
		d.errorf(p, "want a size above 0 and up to 1000TB, got %s", d.gotValue(n))
	default:
		*out = Bytes(v)
	}
}

// parseBytes returns a size rounded to whole bytes, be it out of bounds.
func parseBytes(s string) (v float64, ok bool) {
	m := bytesForm.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	v, _ = strconv.ParseFloat(m[1]+m[3], 64) // out of range is infinite
	for _, u := range byteUnits() {
		if u.name == m[2] {
			v *= float64(u.bytes)
		}
	}
	return math.Round(v), true
}

// String returns the size in the largest unit that needs no fraction.
func (b Bytes) String() string {
	for _, u := range byteUnits() {
		if b != 0 && b%u.bytes == 0 {
			return strconv.FormatInt(int64(b/u.bytes), 10) + u.name
		}
	}
	return "0"
}

// MarshalYAML writes the size as a text that reads back the same.
func (b Bytes) MarshalYAML() (any, error) { return b.String(), nil }

package config

import (
	"embed"
	"maps"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/internal/asset"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// maxLabelBytes bounds a label value.
const maxLabelBytes = 256

// reserved is what reserved.yml has.
var reserved = embedded[struct {
	Labels, Hosts []string
	Addresses     []netip.Prefix
	Embeddings    []struct {
		Network netip.Prefix
		At      [4]int
	}
}]("reserved.yml")

//go:embed *.yml
var files embed.FS

// embedded returns how to get what a YAML file of the program has, which is decoded once.
func embedded[T any](name string) func() T {
	return sync.OnceValue(func() (v T) {
		text, _ := files.ReadFile(name) // one that is missing cannot be decoded
		asset.Decode(name, text, &v)
		return v
	})
}

func validateLabels(r *report, p path, labels map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		at, value := p.key(name), labels[name]
		switch {
		case !model.LegacyValidation.IsValidLabelName(name):
			r.errorf(at, "must be of the form [a-zA-Z_][a-zA-Z0-9_]*, got %s", quote(name))
		case strings.HasPrefix(name, "__") || slices.Contains(reserved().Labels, name):
			r.errorf(at, "label name %s is reserved", quote(name))
		case len(value) > maxLabelBytes:
			r.errorf(at, "must have at most %d bytes, got %d", maxLabelBytes, len(value))
		case !utf8.ValidString(value):
			r.errorf(at, "must be valid UTF-8")
		}
	}
}

// mergeLabels adds own to shared; own ones win.
func mergeLabels(shared, own map[string]string) map[string]string {
	if len(own) == 0 {
		return shared
	}
	out := make(map[string]string, len(shared)+len(own))
	maps.Copy(out, shared)
	maps.Copy(out, own)
	return out
}

// Bytes is a number of bytes, above 0 where it is given, written like 16GB (10^9), 15GiB (2^30) or as a whole number.
type Bytes int64

// maxBytes bounds sizes so that a float64 holds each of them exactly.
const maxBytes = 1_000_000_000_000_000

// byteUnits are the units, large ones first.
var byteUnits = []struct {
	name  string
	bytes Bytes
}{
	{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"kB", 1e3}, {"", 1},
}

// bytesForm is a number with a unit, or a whole one without.
var bytesForm = regexp.MustCompile(`^(?:([0-9]+(?:\.[0-9]+)?)([kMGT]B|[KMGT]iB)|([0-9]+))$`)

// bytes decodes a size. None of the file's may be 0.
func (d *decoder) bytes(n *yaml.Node, p path, out *Bytes) {
	v, ok := parseBytes(n.Value) // "" of what is no plain value
	switch {
	case !ok:
		d.errorf(p, "expected a size like 16GB, 15GiB or a number of bytes, got %s", d.gotValue(n))
	case v < 1 || v > maxBytes:
		d.errorf(p, "expected a size above 0 and up to 1000TB, got %s", d.gotValue(n))
	default:
		*out = Bytes(v)
	}
}

// parseBytes returns a size rounded to whole bytes, unbounded.
func parseBytes(s string) (v float64, ok bool) {
	m := bytesForm.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	v, _ = strconv.ParseFloat(m[1]+m[3], 64) // out of range is infinite
	for _, u := range byteUnits {
		if u.name == m[2] {
			v *= float64(u.bytes)
		}
	}
	return math.Round(v), true
}

// String returns the size in the largest unit that needs no fraction.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b != 0 && b%u.bytes == 0 {
			return strconv.FormatInt(int64(b/u.bytes), 10) + u.name
		}
	}
	return "0"
}

// MarshalYAML writes the size as a text that reads back the same.
func (b Bytes) MarshalYAML() (any, error) { return b.String(), nil }

// Texts returns the members of a closed set as texts.
func Texts[T ~string](all []T) []string { return stats.Map(all, func(v T) string { return string(v) }) }

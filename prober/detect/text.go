package detect

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

const (
	maxText    = 200 // bytes of a server's text that are repeated
	maxVersion = 64  // bytes of a version
	maxModel   = 256 // bytes of a model's name
)

// setVersion keeps a version as the server tells it and returns it in words;
// what is no version is left out.
func (f *Finding) setVersion(v string) string {
	if v == "" || len(v) > maxVersion || strings.ContainsFunc(v, notOfVersion) {
		return ""
	}
	f.Version = v
	return "version " + v
}

func notOfVersion(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !letter && (r < '0' || r > '9') && !strings.ContainsRune(".-+_", r)
}

// usable returns the models whose names can be printed, and so written to a
// terminal and a file.
func usable(models []api.ModelInfo) []api.ModelInfo {
	return slices.DeleteFunc(models, func(m api.ModelInfo) bool {
		return m.ID == "" || len(m.ID) > maxModel || !isPrintable(m.ID)
	})
}

func isPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// printable returns a server's text for people: cut off where it is long, and
// quoted where it could do something to a terminal.
func printable(s string) string {
	limit := maxText
	if !isPrintable(s) {
		limit /= 4 // a byte is four when quoted
	}
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	if !isPrintable(s) {
		return strconv.Quote(s)
	}
	return s
}

// join joins the parts that are not empty.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

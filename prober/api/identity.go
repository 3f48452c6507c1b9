package api

import (
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

// nameIn returns a name that a reply tells, of a model or of a version; nil
// where it is missing or could not be a name (over 256 bytes, not UTF-8).
// Most servers repeat their names in every frame, where decoders read them
// once.
func nameIn(v *fastjson.Value) []byte {
	name := v.GetStringBytes()
	if len(name) == 0 || len(name) > maxModelName || !utf8.Valid(name) {
		return nil
	}
	return name
}

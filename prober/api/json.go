package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/valyala/fastjson"
)

const (
	// checkedSize is the length of a JSON text from which on it is checked
	// before it is parsed.
	checkedSize = 16 << 10
	// maxValues is how many values a checked text may hold, and bytesPerValue
	// how long they are at least on average: lists of token ids, which are the
	// densest of real replies, have five bytes for each.
	maxValues     = 100_000
	bytesPerValue = 3
	// maxCount is the largest believable count of tokens.
	maxCount = 100_000_000
	// maxServerTime is the longest believable time of one request.
	maxServerTime = 24 * time.Hour
)

// parseJSON parses a JSON text; its depth is bounded by fastjson.MaxDepth. The
// parser needs some 100 bytes for a value that took 2, and the text of its
// errors grows with input times depth, so a long text is checked before.
func parseJSON(p *fastjson.Parser, text []byte) (*fastjson.Value, error) {
	if len(text) > checkedSize {
		if most := min(maxValues, len(text)/bytesPerValue); valuesIn(text) > most {
			return nil, fmt.Errorf("%w: JSON of over %d values", ErrProtocol, most)
		}
		if !json.Valid(text) {
			return nil, notJSON(text)
		}
	}
	v, err := p.ParseBytes(text)
	if err != nil {
		return nil, notJSON(text)
	}
	return v, nil
}

// ParserMemory returns about how many bytes the parser needs for the values of a
// JSON text. The vectors of an Embedding are read without it.
func ParserMemory(text []byte, k Kind) int {
	if k == Embedding {
		return 0
	}
	return 160 * valuesIn(text)
}

// valuesIn returns about how many values a JSON text holds, rather more.
func valuesIn(text []byte) int {
	return bytes.Count(text, []byte(",")) + bytes.Count(text, []byte("[")) + bytes.Count(text, []byte("{"))
}

// notJSON quotes the beginning of a text; the parser's own error quotes more.
func notJSON(text []byte) error {
	return fmt.Errorf("%w: no JSON: %s", ErrProtocol, bounded(text))
}

// count returns a count of tokens. Unknown is anything but a believable
// number: absent, null, negative, a fraction, absurdly large.
func count(v *fastjson.Value) int {
	f := number(v)
	if f > maxCount || f != math.Trunc(f) {
		return Unknown
	}
	return int(f)
}

// seconds returns a duration told in seconds; -1 is absent or not believable.
func seconds(v *fastjson.Value) time.Duration { return duration(v, time.Second) }

// milliseconds is the same for a duration told in milliseconds.
func milliseconds(v *fastjson.Value) time.Duration { return duration(v, time.Millisecond) }

// duration returns a duration told as a number of units.
func duration(v *fastjson.Value, unit time.Duration) time.Duration {
	f := number(v)
	if f < 0 || f > float64(maxServerTime/unit) {
		return -1
	}
	return time.Duration(math.Round(f * float64(unit)))
}

// number returns a number that is not negative; -1 is anything else.
func number(v *fastjson.Value) float64 {
	if v == nil || v.Type() != fastjson.TypeNumber {
		return -1
	}
	f, err := v.Float64()
	if err != nil || !(f >= 0) { // NaN too, which the parser lets through
		return -1
	}
	return f
}

// hasText tells whether a list holds a text.
func hasText(list []*fastjson.Value, text string) bool {
	return slices.ContainsFunc(list, func(v *fastjson.Value) bool { return string(v.GetStringBytes()) == text })
}

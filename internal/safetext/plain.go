package safetext

import (
	"html"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxLayers is how many times in a row a text is decoded: a server that quotes
// what a client escaped twice adds two or three layers.
const maxLayers = 6

// layer is a text on its way to a plain one: bytes, and where in the original
// text each begins. The one after the last is where the text ends.
type layer struct {
	bytes string
	at    []int // nil: the original text
}

func (l layer) where(i int) int {
	if l.at == nil {
		return i
	}
	return l.at[i]
}

// decoded returns a text without the escapes of Go, JSON, URLs and HTML, also of those within others.
func decoded(l layer) layer {
	for range maxLayers {
		if !strings.ContainsAny(l.bytes, `\%&`) {
			break
		}
		next := l.unescaped()
		if len(next.bytes) == len(l.bytes) {
			break
		}
		l = next
	}
	return l
}

func (l layer) unescaped() layer {
	bytes, at := make([]byte, 0, len(l.bytes)), make([]int, 0, len(l.bytes)+1)
	for i := 0; i < len(l.bytes); {
		var char [utf8.UTFMax]byte
		n, size := unescape(char[:], l.bytes[i:])
		for _, b := range char[:n] {
			bytes, at = append(bytes, b), append(at, l.where(i))
		}
		i += size
	}
	return layer{string(bytes), append(at, l.where(len(l.bytes)))}
}

// plain is a text without what quoting, escaping and splitting add to it: in lower case, escapes decoded, without white
// space, the "+" for it in a URL, quotes, backslashes, and characters that cannot be seen.
type plain struct {
	runes      []rune
	begin, end []int // where each rune is in the text, in bytes
}

func (p *plain) span(begin, end int) span { return span{begin: p.begin[begin], end: p.end[end-1]} }

func plainOf(l layer) plain {
	l = decoded(l)
	n := len(l.bytes)
	p := plain{runes: make([]rune, 0, n), begin: make([]int, 0, n), end: make([]int, 0, n)}
	for i := 0; i < n; {
		r, size := utf8.DecodeRuneInString(l.bytes[i:])
		if isShown(r) {
			p.runes = append(p.runes, unicode.ToLower(r))
			p.begin, p.end = append(p.begin, l.where(i)), append(p.end, l.where(i+size))
		}
		i += size
	}
	return p
}

// isShown reports whether a character makes a difference between two texts.
func isShown(r rune) bool {
	switch r {
	case '"', '\'', '`', '\\', '+', utf8.RuneError:
		return false
	}
	if r < utf8.RuneSelf {
		return r > ' ' && r != 0x7f
	}
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Mn, r)
}

// unescape writes the first character of a text, decoded where it is escaped, and
// returns its bytes, n, and how many it has in the text.
func unescape(char []byte, text string) (n, size int) {
	switch text[0] {
	case '\\':
		return backslash(char, text)
	case '%':
		if v, ok := hexOf(text, 1, 2); ok {
			char[0] = byte(v)
			return 1, 3
		}
	case '&':
		if end := strings.IndexByte(text[:min(len(text), maxEntity)], ';'); end > 0 {
			if s := html.UnescapeString(text[:end+1]); utf8.RuneCountInString(s) == 1 {
				return copy(char, s), end + 1
			}
		}
	}
	char[0] = text[0]
	return 1, 1
}

// maxEntity is the longest character reference of HTML that is decoded, in
// bytes: the named ones of ASCII and every numbered one are shorter.
const maxEntity = 12

// backslash decodes what a backslash begins: the escapes of Go and JSON. Before
// any other character it is nothing of its own.
func backslash(char []byte, text string) (n, size int) {
	char[0] = '\\'
	if len(text) == 1 {
		return 1, 1
	}
	for _, digits := range digitsAfter[text[1]] {
		v, ok := hexOf(text, 2, digits)
		switch {
		case !ok || v > unicode.MaxRune:
			continue
		case digits == 2:
			char[0] = byte(v)
			return 1, 2 + digits
		case utf16.IsSurrogate(v) && strings.HasPrefix(text[2+digits:], text[:2]): // half a character of JSON
			if low, ok := hexOf(text, 4+digits, digits); ok {
				return utf8.EncodeRune(char, utf16.DecodeRune(v, low)), 2 * (2 + digits)
			}
		}
		return utf8.EncodeRune(char, v), 2 + digits
	}
	switch {
	case text[1] == '\\':
		return 1, 2
	case strings.IndexByte("nrtbfavNRTBFAV0", text[1]) >= 0:
		char[0] = '\n'
		return 1, 2
	}
	return 1, 1
}

// digitsAfter has how many hexadecimal digits may follow a letter after a
// backslash. An escape of four digits may be in upper case.
var digitsAfter = map[byte][]int{'x': {2}, 'X': {2}, 'u': {4}, 'U': {8, 4}}

func hexOf(text string, from, digits int) (rune, bool) {
	if len(text) < from+digits {
		return 0, false
	}
	v, err := strconv.ParseUint(text[from:from+digits], 16, 31)
	return rune(v), err == nil
}

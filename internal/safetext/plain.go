package safetext

import (
	"html"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain is a text without what quoting, escaping and splitting add to it: in
// lower case, escapes decoded, without white space, quotes, backslashes, and
// characters that cannot be seen.
type plain struct {
	runes      []rune
	begin, end []int // where each rune is in the text, in bytes
}

// span returns where runes are in the text.
func (p *plain) span(begin, end int) span { return span{p.begin[begin], p.end[end-1]} }

func plainOf(text string) plain {
	p := plain{runes: make([]rune, 0, len(text)), begin: make([]int, 0, len(text)), end: make([]int, 0, len(text))}
	for at := 0; at < len(text); {
		r, size := unescaped(text[at:])
		if isShown(r) {
			p.runes = append(p.runes, unicode.ToLower(r))
			p.begin, p.end = append(p.begin, at), append(p.end, at+size)
		}
		at += size
	}
	return p
}

// isShown reports whether a character makes a difference between two texts.
func isShown(r rune) bool {
	switch r {
	case '"', '\'', '`', '\\', utf8.RuneError:
		return false
	}
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Mn, r)
}

// unescaped returns the first character of a text, decoded where it is escaped,
// and how many bytes it has there.
func unescaped(text string) (r rune, size int) {
	switch text[0] {
	case '\\':
		return backslash(text)
	case '%':
		if v, ok := hexOf(text, 1, 2); ok {
			return v, 3
		}
	case '&':
		if end := strings.IndexByte(text[:min(len(text), maxEntity)], ';'); end > 0 {
			if s := html.UnescapeString(text[:end+1]); utf8.RuneCountInString(s) == 1 {
				r, _ = utf8.DecodeRuneInString(s)
				return r, end + 1
			}
		}
	}
	return utf8.DecodeRuneInString(text)
}

// maxEntity is the longest character reference of HTML that is decoded, in
// bytes: the named ones of ASCII and every numbered one are shorter.
const maxEntity = 12

// backslash decodes what a backslash begins: the escapes of Go and JSON. Before
// any other character it is nothing of its own.
func backslash(text string) (r rune, size int) {
	if len(text) == 1 {
		return '\\', 1
	}
	for _, digits := range digitsAfter(text[1]) {
		if v, ok := hexOf(text, 2, digits); ok && v <= unicode.MaxRune {
			return v, 2 + digits
		}
	}
	if strings.IndexByte("nrtbfavNRTBFAV0", text[1]) >= 0 {
		return '\n', 2
	}
	return '\\', 1
}

// digitsAfter returns how many hexadecimal digits may follow a letter after a
// backslash. An escape of four digits may be in upper case.
func digitsAfter(letter byte) []int {
	switch letter {
	case 'x', 'X':
		return []int{2}
	case 'u':
		return []int{4}
	case 'U':
		return []int{8, 4}
	}
	return nil
}

// hexOf reads digits hexadecimal digits.
func hexOf(text string, from, digits int) (rune, bool) {
	if len(text) < from+digits {
		return 0, false
	}
	v, err := strconv.ParseUint(text[from:from+digits], 16, 31)
	return rune(v), err == nil
}

package answers

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// The scripts that rules differ by.
const (
	hanScript workload.Scripts = 1 << iota
	hiraganaScript
	katakanaScript
	hangulScript
	greekScript
)

// scripts are those that are told apart; what is in none of them has the bit after the
// last one. Latin is not among them: code, units and names are written in it everywhere.
var scripts = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Greek,
	unicode.Cyrillic, unicode.Arabic, unicode.Hebrew, unicode.Thai, unicode.Devanagari, unicode.Bengali, unicode.Tamil,
	unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Gujarati, unicode.Gurmukhi, unicode.Sinhala, unicode.Lao, unicode.Khmer,
	unicode.Myanmar, unicode.Tibetan, unicode.Georgian, unicode.Armenian, unicode.Ethiopic, unicode.Mongolian, unicode.Bopomofo,
}

// latinEnd is the first character after the blocks that hold Latin letters alone.
const latinEnd = 0x370

// ScriptsOf returns the scripts of the letters of a text.
func ScriptsOf(text string) workload.Scripts {
	var all, last workload.Scripts
	for _, r := range text {
		if r >= latinEnd {
			last = scriptOf(r, last)
			all |= last
		}
	}
	if all&(hiraganaScript|katakanaScript) != 0 { // Japanese
		all |= hanScript | hiraganaScript | katakanaScript
	}
	return all
}

// scriptOf returns the script of a letter, 0 for Latin and for what is no letter. last is
// that of the letter before, which is mostly the same.
func scriptOf(r rune, last workload.Scripts) workload.Scripts {
	if r < latinEnd || !unicode.IsLetter(r) {
		return 0
	}
	for i, table := range scripts {
		if last == 1<<i && unicode.Is(table, r) {
			return last
		}
	}
	if unicode.In(r, unicode.Latin, unicode.Common) {
		return 0
	}
	for i, table := range scripts {
		if unicode.Is(table, r) {
			return 1 << i
		}
	}
	return 1 << len(scripts)
}

// enough returns how many letters in a row make a word of a script that does not fit. One
// letter is a symbol, such as π, or part of a face, such as ツ; a character of Chinese or
// Korean is a word.
func enough(s workload.Scripts) int {
	switch s {
	case hanScript, hangulScript:
		return 1
	case greekScript:
		return 3
	}
	return 2
}

// foreign reports whether a text has a word in a script that does not fit, other than in
// quotation marks or brackets, as names are given in their own script.
func foreign(text string, fits workload.Scripts) bool {
	var last workload.Scripts
	letters := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if closing, ok := closings[r]; ok {
			i += size + quoted(text[i+size:], closing)
			letters = 0
			continue
		}
		i += size
		if letters > 0 && unicode.Is(unicode.Mn, r) {
			continue // a mark on the letter before
		}
		s := scriptOf(r, last)
		if s != last {
			letters = 0
		}
		last = s
		if s == 0 || s&fits != 0 {
			continue
		}
		if letters++; letters >= enough(s) {
			return true
		}
	}
	return false
}

// closings are the quotation marks and brackets that end what others begin.
var closings = map[rune]rune{
	'(': ')', '[': ']', '（': '）', '「': '」', '『': '』', '《': '》', '〈': '〉', '【': '】',
	'«': '»', '“': '”', '„': '“', '‘': '’', '"': '"',
}

// maxQuoted is how long a text in quotation marks or brackets is, at most, in bytes.
const maxQuoted = 200

// quoted returns the length of what a text begins with up to its closing, 0 where it does
// not close. The text may have been cut before.
func quoted(text string, closing rune) int {
	line, _, more := strings.Cut(text[:min(len(text), maxQuoted)], "\n")
	i := strings.IndexRune(line, closing)
	switch {
	case i >= 0:
		return i + utf8.RuneLen(closing)
	case !more && len(text) == len(line):
		return len(text)
	}
	return 0
}

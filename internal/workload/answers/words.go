package answers

import (
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// answerPart leaves out what a model wrote between <think> and </think> before it answered. A template may have
// opened the block in the prompt; one without an end has no answer after it.
func answerPart(text string) string {
	const opening, closing = "<think>", "</think>"
	if i := strings.LastIndex(text, closing); i >= 0 {
		text = text[i+len(closing):]
	}
	text, _, _ = strings.Cut(text, opening)
	return text
}

// words returns the words of a text in lower case with one space between them, so that two ways to write the same are
// the same. Punctuation, symbols and markup are left out, but for the decimal point and the minus sign of a number. So
// are commas between thousands, apostrophes in a word, commands of LaTeX and up to two zeros alone after a decimal
// point. Where a script has no spaces, each character is a word.
func words(text string) string {
	w := wordWriter{text: text}
	w.out.Grow(len(text) + 1)
	for w.at < len(text) {
		switch r := w.rune(); {
		case r == '\\':
			w.skipCommand()
		case isDigit(r):
			w.number()
		case isWordRune(r) && !unicode.IsMark(r):
			w.word()
		default:
			w.at += w.size
		}
	}
	return w.out.String()
}

// wordWriter writes the words of a text one by one.
type wordWriter struct {
	text string
	at   int // of the next rune
	size int // of the rune last looked at, in bytes
	out  strings.Builder
}

// rune returns the rune at the place, 0 at the end of the text.
func (w *wordWriter) rune() rune {
	if w.at >= len(w.text) {
		w.size = 0
		return 0
	}
	if c := w.text[w.at]; c < utf8.RuneSelf {
		w.size = 1
		return rune(c)
	}
	r, size := utf8.DecodeRuneInString(w.text[w.at:])
	w.size = size
	return r
}

func (w *wordWriter) space() {
	if w.out.Len() > 0 {
		w.out.WriteByte(' ')
	}
}

// skipCommand skips a command of LaTeX, such as the \boxed before an answer.
func (w *wordWriter) skipCommand() {
	for w.at++; w.at < len(w.text) && isLatin(w.text[w.at]); w.at++ {
	}
}

func (w *wordWriter) word() {
	w.space()
	alone := isUnspaced(w.rune())
	for {
		r := w.rune()
		switch {
		case isWordRune(r):
			w.out.WriteRune(unicode.ToLower(r))
		case r == '\'' || r == '’':
		default:
			return
		}
		w.at += w.size
		if next := w.rune(); alone && !unicode.IsMark(next) || !alone && isUnspaced(next) {
			return
		}
	}
}

// number writes the number that begins here, and the letters that follow it without a space.
func (w *wordWriter) number() {
	w.space()
	if w.negative() {
		w.out.WriteByte('-')
	}
	w.whole()
	w.decimals()
	for r := w.rune(); isWordRune(r) && !isUnspaced(r); r = w.rune() {
		w.out.WriteRune(unicode.ToLower(r))
		w.at += w.size
	}
}

// whole writes the digits before the decimal point without the commas between thousands.
func (w *wordWriter) whole() {
	n := digits(w.text[w.at:])
	w.take(n)
	if n > 3 {
		return
	}
	for strings.HasPrefix(w.text[w.at:], ",") && digits(w.text[w.at+1:]) == 3 {
		w.at++
		w.take(3)
	}
}

func (w *wordWriter) decimals() {
	rest := w.text[w.at:]
	if !strings.HasPrefix(rest, ".") {
		return
	}
	switch point := rest[:1+digits(rest[1:])]; point {
	case ".":
	case ".0", ".00":
		w.at += len(point)
	default:
		w.take(len(point))
	}
}

func (w *wordWriter) take(n int) {
	w.out.WriteString(w.text[w.at : w.at+n])
	w.at += n
}

// negative reports whether the number that begins here has a minus sign: one that is not between two numbers or words.
func (w *wordWriter) negative() bool {
	before := w.text[:w.at]
	rest, ok := strings.CutSuffix(before, "-")
	if !ok {
		rest, ok = strings.CutSuffix(before, "−")
	}
	last, _ := utf8.DecodeLastRuneInString(rest)
	return ok && !isWordRune(last) && last != '-'
}

func digits(text string) (n int) {
	for n < len(text) && isDigit(rune(text[n])) {
		n++
	}
	return n
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

func isLatin(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return isDigit(r) || isLatin(byte(r))
	}
	if unicode.Is(unicode.Variation_Selector, r) {
		return false // of an emoji
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.In(r, unicode.Mn, unicode.Mc)
}

// isUnspaced reports whether r belongs to a script that is written without spaces between words.
func isUnspaced(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// within reports whether the words are in the text, one after the other; both are as words returns them.
func within(text, words string) bool {
	return words != "" && strings.Contains(" "+text+" ", " "+words+" ")
}

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
	if i := bits.TrailingZeros32(uint32(last)); i < len(scripts) && unicode.Is(scripts[i], r) {
		return last
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

// enough returns how many letters in a row make a word of a script that does not fit. One letter is a symbol,
// such as π or ツ; a character of Chinese or Korean is a word.
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

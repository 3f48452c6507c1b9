package answers

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Inspect returns the signs of corruption in an answer, in the order of result.Signs; nil is none. fits are the
// scripts of the prompt. In code, scripts and tokens do not count: they may be what was asked for.
func Inspect(a workload.Answer, fits workload.Scripts) []result.Sign {
	prose := withoutCode(a.Text)
	var found []result.Sign
	for _, sign := range [...]struct {
		result.Sign
		shown bool
	}{
		{result.SignScript, foreign(answerPart(prose), fits)},
		{result.SignRepetition, repeats(a.Text)},
		{result.SignOneToken, isOneToken(a.Text)},
		{result.SignControl, garbled(a)},
		{result.SignToken, leaks(prose)},
		{result.SignReasoning, containsAny(prose, phrases().ReasoningTags)},
	} {
		if sign.shown {
			found = append(found, sign.Sign)
		}
	}
	return found
}

// withoutCode leaves out what stands between backticks. What does not end, a block or on
// the last line, is code to the end of the text, which may have been cut.
func withoutCode(text string) string {
	if !strings.Contains(text, "`") {
		return text
	}
	var prose strings.Builder
	for {
		before, rest, found := strings.Cut(text, "`")
		prose.WriteString(before)
		if !found {
			return prose.String()
		}
		prose.WriteByte(' ')
		more := len(rest) - len(strings.TrimLeft(rest, "`"))
		fence := text[len(before) : len(before)+1+more]
		rest = rest[more:]
		end := strings.Index(rest, fence)
		isBlock, newline := len(fence) >= 3, strings.Index(rest, "\n")
		switch {
		case end < 0 && (isBlock || newline < 0):
			return prose.String()
		case end < 0 || !isBlock && newline >= 0 && newline < end:
			text = rest // a single mark, such as an accent
		default:
			text = rest[end+len(fence):]
		}
	}
}

// How often a word or a character comes at the end of a text, for the text to be nothing else: minTokens where it has no
// other, and minLoop where it is at least 7 of 8 of it.
const (
	minTokens = 16
	minLoop   = 32
)

// isOneToken reports whether a text is one word or one character over and over, but for a few at its start.
func isOneToken(text string) bool {
	return isOneOf(strings.Fields(text)) || isOneOf([]rune(strings.TrimSpace(text)))
}

func isOneOf[T comparable](tokens []T) bool {
	run := 0
	for run < len(tokens) && tokens[len(tokens)-1-run] == tokens[len(tokens)-1] {
		run++
	}
	return run >= minTokens && run == len(tokens) || run >= minLoop && 8*run >= 7*len(tokens)
}

// A text repeats most of itself when more than maxRepeated of its sequences of gram words have come before, of
// minGrams at least. Refrains, tables and code stay below.
const (
	gram        = 4
	minGrams    = 40
	maxRepeated = 0.5
)

// repeats reports whether a text runs in a loop or repeats most of itself.
func repeats(text string) bool {
	tail := ending(text)
	said := words(tail)
	spoken := spoken(said)
	if runsInLoop(spoken, tail) {
		return true
	}
	grams := len(spoken) - gram + 1
	if grams < minGrams {
		return false
	}
	sequences := make([]string, 0, grams)
	start, end := 0, 0 // of a sequence in said, a space after it
	for i, word := range spoken {
		end += len(word) + 1
		if i < gram-1 {
			continue
		}
		sequences = append(sequences, said[start:end])
		start += len(spoken[i-gram+1]) + 1
	}
	slices.Sort(sequences)
	return float64(grams-len(slices.Compact(sequences))) > maxRepeated*float64(grams)
}

// garbled reports whether a text has a character that no text has. An answer that was
// cut at its limit may end in the midst of a character.
func garbled(a workload.Answer) bool {
	text := a.Text
	if a.Finish == finishLength || a.Finish == "" {
		text = strings.TrimRight(text, string(utf8.RuneError))
		for r, n := utf8.DecodeLastRuneInString(text); r == utf8.RuneError && n == 1; r, n = utf8.DecodeLastRuneInString(text) {
			text = text[:len(text)-1]
		}
	}
	for i, r := range text {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
		case r < ' ', 0x7f <= r && r < 0xa0, r == utf8.RuneError:
			return true
		case r < 0xe000: // most of what is written
		case unicode.Is(unicode.Co, r), r == '\ufeff' && i > 0, r&0xfffe == 0xfffe:
			return true
		}
	}
	return false
}

// leaks reports whether a text has a special token, a part of a template or pieces that were not decoded in it.
func leaks(text string) bool {
	return strings.Contains(text, "<") && (containsAny(text, phrases().AngleTokens) || named(text, "<|", "|>") || named(text, "<｜", "｜>") || sentenceToken(text)) ||
		strings.Contains(text, "[") && containsAny(text, phrases().SquareTokens) ||
		containsAny(text, phrases().RawTexts) || roleLeft(text) || undecoded(text)
}

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(s string) bool { return strings.Contains(text, s) })
}

// maxTokenName bounds the name in a special token, in bytes.
const maxTokenName = 48

// named reports whether a text has a name between an opening and a closing.
func named(text, opening, closing string) bool {
	for {
		_, rest, found := strings.Cut(text, opening)
		if !found {
			return false
		}
		name, _, found := strings.Cut(rest[:min(len(rest), maxTokenName)], closing)
		if found && name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !isTokenRune(r) }) {
			return true
		}
		text = rest
	}
}

func isTokenRune(r rune) bool {
	return r < utf8.RuneSelf && (isDigit(r) || isLatin(byte(r)) || strings.ContainsRune("_-/.:", r)) || r == '▁'
}

// sentenceToken reports whether a text begins or ends with the mark of sentences of
// older models. Anywhere else it is HTML.
func sentenceToken(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "<s>") && !strings.Contains(text, "</s>") || strings.HasSuffix(text, "</s>") && !strings.Contains(text, "<s>")
}

// roleLeft reports whether the name of a role is left of a template whose special
// tokens were taken out: "…the end.assistant", and a new line.
func roleLeft(text string) bool {
	for {
		before, rest, found := strings.Cut(text, "assistant\n")
		if !found {
			return false
		}
		if last, size := utf8.DecodeLastRuneInString(before); size > 0 && strings.ContainsRune(".!?…)”\"'", last) {
			return true
		}
		text = rest
	}
}

// minPieces is how many pieces with their mark of a space show that a text was not decoded.
const minPieces = 2

// undecoded reports whether words are joined by the marks that vocabularies have for spaces.
func undecoded(text string) bool {
	if !strings.Contains(text, "Ġ") && !strings.Contains(text, "▁") {
		return false
	}
	n := 0
	before := ' '
	for i, r := range text {
		if (r == 'Ġ' || r == '▁') && unicode.IsLower(before) {
			if next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):]); unicode.IsLetter(next) {
				n++
			}
		}
		before = r
	}
	return n >= minPieces
}

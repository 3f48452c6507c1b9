package config

import (
	_ "embed"
	"slices"
	"strings"
	"unicode"
)

// written is how a language is recognised: by its script where no other language of the
// list has it, else by frequent words, and by letters that the others do not have.
type written struct {
	code    string // ISO 639-1
	script  *unicode.RangeTable
	letters string
	words   []string
}

//go:embed languages.txt
var languagesText string

func writtenLanguages() []written {
	var all []written
	for line := range strings.Lines(languagesText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.Fields(line)
		all = append(all, written{code: row[0], script: unicode.Scripts[row[1]], letters: strings.Trim(row[2], "-"), words: row[3:]})
	}
	return all
}

// Languages lists the ISO 639-1 codes of the languages of which ordinary texts are recognised nearly
// always. The others, with many forms of a word, are known so that no text in them is taken for these.
func Languages() []string {
	others := []string{"be", "et", "fi", "mr", "ne"}
	var codes []string
	for _, l := range writtenLanguages() {
		if !slices.Contains(others, l.code) {
			codes = append(codes, l.code)
		}
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// LanguageOf returns the ISO 639-1 code of the language of most of a text; "" where it is not clear, as of a few words.
func LanguageOf(text string) string {
	all := writtenLanguages()
	one, script := scriptOf(text, all)
	if script == nil {
		return one
	}
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) })
	// A word counts the less the more languages have it.
	have := map[string]int{}
	all = slices.DeleteFunc(all, func(l written) bool { return l.script != script })
	for _, l := range all {
		for _, w := range l.words {
			have[w]++
		}
	}
	best, second, known := 0.0, 0.0, 0
	for _, l := range all {
		score, hits := 0.0, 0
		for _, w := range words {
			switch {
			case slices.Contains(l.words, w):
				score += 1 / float64(have[w])
				hits++
			case l.letters != "" && strings.ContainsAny(w, l.letters):
				score += 0.5
				hits++
			}
		}
		if score > best {
			best, second, known, one = score, best, hits, l.code
		} else {
			second = max(second, score)
		}
	}
	// fewest words must be known, and one of each share; the next best language must be this much behind.
	const fewest, share, ahead = 2, 10, 1.2
	if known < fewest || known*share < len(words) || best < ahead*second {
		return ""
	}
	return one
}

// scriptOf returns the script of most letters of a text; the code alone where only one language has it.
func scriptOf(text string, all []written) (code string, script *unicode.RangeTable) {
	letters, total := map[string]int{}, 0
	scripts := map[string]*unicode.RangeTable{}
	for _, r := range text {
		if !unicode.IsLetter(r) {
			continue
		}
		total++
		if i := slices.IndexFunc(all, func(l written) bool { return unicode.Is(l.script, r) }); i >= 0 {
			letters[all[i].code]++
			if len(all[i].words) > 0 {
				scripts[all[i].code] = all[i].script
			}
		}
	}
	// Japanese has Chinese characters between its own.
	const own = 10 // of which at least one of so many is its own
	if letters["ja"]*own > letters["zh"] {
		letters["ja"] += letters["zh"]
	}
	for c, n := range letters {
		if 2*n > total {
			code, script = c, scripts[c]
			if c != "zh" {
				break
			}
		}
	}
	return code, script
}

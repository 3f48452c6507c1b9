package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The texts are article 1 of the Universal Declaration of Human Rights.
func TestLanguageOf(t *testing.T) {
	text, err := os.ReadFile("testdata/languages.txt")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for line := range strings.Lines(string(text)) {
		want, article, _ := strings.Cut(strings.TrimSpace(line), " ")
		seen = append(seen, want)
		if got := LanguageOf(article); got != want {
			t.Errorf("%q instead of %q: %s", got, want, article)
		}
	}
	for _, l := range writtenLanguages() {
		if len(l.words) > 0 && !slices.Contains(seen, l.code) {
			t.Errorf("no text in %s", l.code)
		}
	}
	for _, unclear := range []string{"", "42", "ok", "no", "de", "la la", "func main() { x := y + 1 }", "ABC-123 QWERTZ", "🙂🙂", "the 日本語テキスト сейчас"} {
		if got := LanguageOf(unclear); got != "" {
			t.Errorf("%s of %q", got, unclear)
		}
	}
}

package simulator

import (
	"strings"
	"testing"
)

func TestVocabulary(t *testing.T) {
	v := newVocabulary()
	if len(v) != 100 {
		t.Fatalf("%d words, want 100", len(v))
	}
	f := func(p speech, i int, want string) {
		t.Helper()
		if got := string(p.append(nil, v, i)); got != want {
			t.Errorf("word %d of %+v: %q, want %q", i, p, got, want)
		}
	}
	f(speech{}, 0, "zero")
	f(speech{}, 19, " nineteen")
	f(speech{}, 20, " twenty")
	f(speech{}, 99, " ninety-nine")
	f(speech{}, 100, " zero")
	f(speech{offset: 42}, 1, " forty-three")
	f(speech{said: []string{"yes"}}, 0, "yes")
	f(speech{said: []string{"yes"}}, 1, " one")
	f(speech{turn: 3}, 1, " one")
	f(speech{turn: 3}, 2, " fifty-two")
	f(speech{turn: 3}, 3, " fifty-three")
}

// Two voices say other things, and each always the same.
func TestVoices(t *testing.T) {
	v := newVocabulary()
	say := func(p speech) string {
		var text []byte
		for i := range 16 {
			text = p.append(text, v, i)
		}
		return string(text)
	}
	seen := map[string]uint64{say(speech{}): 0}
	for voice := range uint64(200) {
		p := speech{voice: voice + 1}
		text := say(p)
		if other, ok := seen[text]; ok {
			t.Errorf("voices %d and %d both say %s", other, voice+1, text)
		}
		seen[text] = voice + 1
		if again := say(p); again != text {
			t.Errorf("voice %d says %q, then %q", voice+1, text, again)
		}
		if n := len(strings.Fields(text)); n != 16 {
			t.Errorf("%d words: %s", n, text)
		}
	}
}

package answers

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
)

// prose are ordinary texts, some with as much repetition as ordinary texts have.
var prose = []string{
	drift.Reference().Passage,
	`A probe asks one question and waits for the answer. While it waits it does nothing else, so that the time it measures is the time of the
server and not its own. When the answer is there, it is put beside the ones that came before. One slow answer means little. Ten slow answers in a
row mean that somebody should look, and an hour of slow answers means that somebody should have looked already.`,
	`1. Wash the rice until the water runs clear.
2. Add one and a half cups of water for each cup of rice.
3. Bring it to the boil, then turn the heat down.
4. Cover it and wait for fifteen minutes.
5. Take it off the heat, and wait for five minutes more.`,
	`one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen, sixteen, seventeen, eighteen,
nineteen, twenty, twenty-one, twenty-two, twenty-three, twenty-four, twenty-five, twenty-six, twenty-seven, twenty-eight, twenty-nine, thirty,
thirty-one, thirty-two, thirty-three, thirty-four, thirty-five, thirty-six, thirty-seven, thirty-eight, thirty-nine, forty`,
	`Sleep, little one, the day is done. The moon looks in, the stars are out.
Sleep, little one, the day is done. The dog has ended all its rounds.
Sleep, little one, the day is done. Tomorrow there is much to see.
Sleep, little one, the day is done.`,
	`| city | people | river |
| --- | --- | --- |
| Basel | 170000 | Rhine |
| Lyon | 520000 | Rhone |
| Turin | 850000 | Po |
--------------------------------------------------------------------------------`,
	`for i := 0; i < len(rows); i++ {
	for j := 0; j < len(rows[i]); j++ {
		if rows[i][j] == 0 {
			return i, j, true
		}
	}
}
return 0, 0, false`,
	`{"items": [{"id": 1, "ok": true}, {"id": 2, "ok": true}, {"id": 3, "ok": true}, {"id": 4, "ok": false}, {"id": 5, "ok": true}]}`,
	"Ha ha ha, no, no, no! That is very, very, very funny.",
	"春天来了，河边的树开始发芽，孩子们在草地上放风筝。老人坐在长椅上晒太阳，谈论着去年的收成和今年的雨水。",
	"",
}

// No beginning of an ordinary text is a loop: an answer may be cut anywhere.
func TestProseIsNoLoop(t *testing.T) {
	for _, text := range prose {
		for end := range text {
			if loops(text[:end]) {
				t.Fatalf("a loop: %q", text[:end])
			}
		}
		if loops(text) {
			t.Errorf("a loop: %q", text)
		}
	}
}

func TestLoops(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		if got := loops(text); got != want {
			t.Errorf("loops(%q) = %t", text, got)
		}
	}
	repeat := strings.Repeat
	f(repeat("x ", 13), true)
	f(repeat("x ", 12), false)         // the last word may have been cut
	f(repeat("to and fro ", 4), false) // 11 words and perhaps another
	f(repeat("to and fro ", 5), true)
	sentence := "The train to the north leaves at seven in the morning from here. "
	f(repeat(sentence, 3)+"The train", false)
	f(repeat(sentence, 4)+"The", true)
	paragraph := strings.Join(strings.Fields(drift.Reference().Passage)[:120], " ") + " "
	f(repeat(paragraph, 3)+"The old", false)
	f(repeat(paragraph, 4)+"The", true)
	f("First of all: "+repeat("we will see. ", 20), true)
	f(repeat("we will see. ", 20)+"And that is how it ended.", false) // it went on
	f(repeat("- item\n", 14), true)
	f(repeat("We Will, see! we will see; ", 10), true) // the same words
	f(repeat("哈", 14), true)
	f(repeat("!", 100), true)
	f(repeat("!", 99), false)
	f(repeat(`{"a": [`, 20), true)
	f(repeat("=-", 50), true)
	f(repeat("\n", 200), false) // nothing at all
}

// Any phrase that is said often enough is a loop, whatever was said before it
// and wherever in it the answer was cut.
func TestAnyRepeatedPhraseLoops(t *testing.T) {
	word := rapid.StringMatching(`[a-zäñ]{1,9}[,.;]?`)
	rapid.Check(t, func(t *rapid.T) {
		phrase := strings.Join(rapid.SliceOfN(word, 1, 140).Draw(t, "phrase"), " ") + " "
		text := rapid.SampledFrom(prose).Draw(t, "before") + " " + strings.Repeat(phrase, 14)
		text += phrase[:rapid.IntRange(0, len(phrase)-1).Draw(t, "cut")]
		if !loops(text) {
			t.Fatal("no loop")
		}
	})
}

func TestRefuses(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		if got := refuses(words(text)); got != want {
			t.Errorf("refuses(%q) = %t", text, got)
		}
	}
	for _, text := range []string{
		"I can't help with that.", "I can’t do this", "I cannot answer.", "I’m sorry, but I can't assist with that request.",
		"As a language model, I am not able to say.", "Sorry, I won't.", "Unfortunately, I'm unable to do so.", "I must decline.",
		"**I cannot** provide this.", "We are unable to assist with this request.",
	} {
		f(text, true)
	}
	for _, text := range []string{
		"", "41", "Sorry, it is 41.", "I think it is 41.", "No.", "The can opener", "Icant", "I apologize. It is Rome.", "You can not",
		// Late in a long answer it is no refusal of the question.
		"The city lies on a river, has two hills and a harbor, and was founded by people whose name I cannot spell.",
	} {
		f(text, false)
	}
}

func TestHash(t *testing.T) {
	// The vectors of FIPS 180-4 for the empty message and for "abc".
	for text, want := range map[string]string{"": "e3b0c44298fc1c14", "abc": "ba7816bf8f01cfea"} {
		if got := workload.Hash(text); got != want {
			t.Errorf("workload.Hash(%q) = %s, want %s", text, got, want)
		}
	}
	if workload.Hash("a") == workload.Hash("a ") {
		t.Error("white space does not count")
	}
}

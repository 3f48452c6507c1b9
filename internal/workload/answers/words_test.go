package answers

import (
	"testing"
	"unicode/utf8"
)

func TestWords(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := words(text); got != want {
			t.Errorf("words(%q) = %q, want %q", text, got, want)
		}
	}
	f("", "")
	f(" \n\t ", "")
	f("**!?**", "")
	f("The  Answer\nis: Paris.", "the answer is paris")
	f("**Paris**", "paris")
	f("`x_1`", "x 1")
	f("It's  John’s 'cat'", "its johns cat")
	f("forty-two", "forty two")

	f("42", "42")
	f("42.", "42")
	f("$42", "42")
	f("42%", "42")
	f("42.0", "42")
	f("42.00", "42")
	f("42.000", "42.000") // may be thousands
	f("42.5", "42.5")
	f("42.50", "42.50")
	f("3.14.15", "3.14 15")
	f("2.x", "2 x")
	f("1,234", "1234")
	f("1,234,567.80", "1234567.80")
	f("1,23", "1 23")
	f("1,2345", "1 2345")
	f("2024,300", "2024 300") // no thousands before
	f("2, 7, 9", "2 7 9")
	f("2,7,9", "2 7 9")
	f("100cm", "100cm")
	f("007", "007")

	f("-5", "-5")
	f("(-5)", "-5")
	f("−5", "-5")
	f("x = -5", "x -5")
	f("17-5", "17 5")
	f("K7-42", "k7 42")
	f("--5", "5")
	f("- 5", "5")
	f("2024-03-01", "2024 03 01")

	f(`\boxed{42}`, "42")
	f(`\text{no}`, "no")
	f(`\`, "")
	f("42 ✔️", "42")
	f("4️⃣", "4")
	f("\xff42\xfe", "42")
	f("Ärger ÉTÉ", "ärger été")
	f("e\u0301te\u0301", "e\u0301te\u0301")
	f("答案是42", "答 案 是 42")
	f("ok答", "ok 答")
	f("ภาษา", "ภ า ษ า")
	f("ที่", "ที่") // a character and its marks
}

func TestAnswerPart(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := answerPart(text); got != want {
			t.Errorf("answerPart(%q) = %q, want %q", text, got, want)
		}
	}
	f("42", "42")
	f("<think>6 times 7</think>42", "42")
	f("6 times 7 is 41? no.</think>42", "42") // opened in the template
	f("<think>a</think>b<think>c</think>d", "d")
	f("<think>6 times", "") // cut
	f("42<think>or not", "42")
}

func TestWithin(t *testing.T) {
	f := func(text, part string, want bool) {
		t.Helper()
		if got := within(text, part); got != want {
			t.Errorf("within(%q, %q) = %t", text, part, got)
		}
	}
	f("it is 42 now", "42", true)
	f("42", "42", true)
	f("420", "42", false)
	f("142", "42", false)
	f("42.5", "42", false)
	f("-42", "42", false)
	f("new york city", "york city", true)
	f("new york city", "new city", false)
	f("any", "", false)
}

// Words of words are the same, and they are text.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"", "The answer is **42**.", "1,234.50 -7 −8", `\boxed{x}`, "it's\x00\xff", "答案ที่", "4️⃣ İ ẞ", "1.0.0", "1,,234", "'''"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := words(text)
		if !utf8.ValidString(once) {
			t.Fatalf("%q is not UTF-8", once)
		}
		if twice := words(once); twice != once {
			t.Fatalf("%q, and of that %q", once, twice)
		}
	})
}

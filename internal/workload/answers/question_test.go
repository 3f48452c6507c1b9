package answers

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

func find(t *testing.T, id string) Question {
	t.Helper()
	for _, q := range Questions() {
		if q.ID == id {
			return q
		}
	}
	t.Fatalf("no question %q", id)
	return Question{}
}

func TestJudge(t *testing.T) {
	f := func(id, answer string, want result.Verdict) {
		t.Helper()
		if got := find(t, id).Judge(answer); got != want {
			t.Errorf("%s, answered with %q: %s, want %s", id, answer, got, want)
		}
	}
	for _, answer := range []string{
		"42", "42.", " 42\n", "**42**.", "$42$", `\boxed{42}`, "42.0", "= 42", "Forty-two", "FORTY TWO",
		"The answer is 42", "The answer is: **42**.", "Answer: 42", "It's 42!", "Sure! The answer is 42.", "Okay, so the answer is 42.",
		"<think>17 + 25 is 41? No, 42.</think>\n\n42", "17 and 25</think>42",
	} {
		f("sum", answer, result.VerdictCorrect)
	}
	for _, answer := range []string{
		"not 42", "The answer is not 42", "17 + 25 = 42", "42 apples", "To add 17 and 25, add the tens, then the ones. The sum is 42.",
		"", " ", "<think>17 and 25", "**", "41 or 42", "Sure, okay, so, the answer is 42",
	} {
		f("sum", answer, result.VerdictWrongFormat)
	}
	for _, answer := range []string{"420", "142", "4 2", "41", "-42", "42.5", "42,000", "I think so", "Sorry, it is 41."} {
		f("sum", answer, result.VerdictWrong)
	}
	for _, answer := range []string{"I'm sorry, but I can't help with that.", "I cannot say whether it is 42.", "As a model, I am unable to add."} {
		f("sum", answer, result.VerdictRefused)
	}
	f("sum", strings.Repeat("I can't help with that. ", 30), result.VerdictRefused) // that it does so again and again is less
	f("sum", strings.Repeat("42 ", 30), result.VerdictRepetition)
	f("sum", strings.Repeat("!", 300), result.VerdictRepetition)
	f("sum", "<think>"+strings.Repeat("Wait, let me think again. ", 30), result.VerdictRepetition)

	f("thousands", "2,000", result.VerdictCorrect)
	f("thousands", "2000.00", result.VerdictCorrect)
	f("sort", "2,7,9", result.VerdictCorrect)
	f("sort", "2 7 9", result.VerdictCorrect)
	f("sort", "7, 2, 9", result.VerdictWrong)
	f("sort", "2, 7, 9, 11", result.VerdictWrongFormat)
	f("capital", "paris", result.VerdictCorrect)
	f("capital", "The capital of France is Paris.", result.VerdictWrongFormat)
	f("capital", "Parisian", result.VerdictWrong)
	f("taller", "No.", result.VerdictCorrect)
	f("taller", "No, because Tom is the tallest.", result.VerdictWrongFormat)
	f("taller", "Yes", result.VerdictWrong)
	f("taller", "Unknown", result.VerdictWrong)
}

func TestJudgeJSON(t *testing.T) {
	f := func(id, answer string, want result.Verdict) {
		t.Helper()
		if got := find(t, id).Judge(answer); got != want {
			t.Errorf("%s, answered with %q: %s, want %s", id, answer, got, want)
		}
	}
	f("json-number", `{"result": 42}`, result.VerdictCorrect)
	f("json-number", "\n{ \"result\" : 42.0 }\n", result.VerdictCorrect)
	f("json-number", `{"result": "42"}`, result.VerdictCorrect)
	f("json-number", `<think>{"result": 41}</think>{"result": 42}`, result.VerdictCorrect)
	f("json-number", "```json\n{\"result\": 42}\n```", result.VerdictWrongFormat)
	f("json-number", `42`, result.VerdictWrongFormat)
	f("json-number", `{"answer": 42}`, result.VerdictWrongFormat)
	f("json-number", `{"result": 42, "unit": null}`, result.VerdictWrongFormat)
	f("json-number", `{"result": [42]}`, result.VerdictWrongFormat)
	f("json-number", `{"result": 42`, result.VerdictWrongFormat)
	f("json-number", `{"result": 42} {}`, result.VerdictWrongFormat)
	f("json-number", `{}`, result.VerdictWrongFormat)
	f("json-number", `{"result": 41}`, result.VerdictWrong)
	f("json-number", `{"result": null}`, result.VerdictWrong)
	f("json-word", `{"word": "Cold"}`, result.VerdictCorrect)
	f("json-word", `{"word": "warm"}`, result.VerdictWrong)
	f("json-true", `{"even": true}`, result.VerdictCorrect)
	f("json-true", `{"even": false}`, result.VerdictWrong)
}

func TestContains(t *testing.T) {
	f := func(answer, expected string, want result.Verdict) {
		t.Helper()
		if got := Contains(answer, expected); got != want {
			t.Errorf("Contains(%q, %q) = %s, want %s", answer, expected, got, want)
		}
	}
	f("Paris", "Paris", result.VerdictCorrect)
	f("It is **paris**, of course.", "Paris", result.VerdictCorrect)
	f("The total is 1,250.00 euros.", "1250", result.VerdictCorrect)
	f("New\nYork", "new york", result.VerdictCorrect)
	f("答案是四十二。", "四十二", result.VerdictCorrect)
	f("Use a + b.", "+", result.VerdictCorrect) // no word: as it is written
	f(strings.Repeat("Paris ", 40), "Paris", result.VerdictCorrect)
	f("I can't say more than Paris.", "Paris", result.VerdictCorrect)
	f("Parisian", "Paris", result.VerdictWrong)
	f("1250", "125", result.VerdictWrong)
	f("York New", "new york", result.VerdictWrong)
	f("Use a - b.", "+", result.VerdictWrong)
	f("<think>Paris</think>Rome", "Paris", result.VerdictWrong)
	f("", "Paris", result.VerdictWrongFormat)
	f("<think>Paris", "Paris", result.VerdictWrongFormat)
	f("I'm sorry, I cannot help with that.", "Paris", result.VerdictRefused)
	f(strings.Repeat("Rome ", 40), "Paris", result.VerdictRepetition)
}

// Every question can be answered as it asks, in each of the ways that it takes,
// and says how to answer.
func TestQuestions(t *testing.T) {
	ids, texts := map[string]bool{}, map[string]bool{}
	for _, q := range Questions() {
		if q.ID == "" || ids[q.ID] || texts[q.Text] {
			t.Errorf("question %q is there twice", q.ID)
		}
		ids[q.ID], texts[q.Text] = true, true
		if !strings.Contains(q.Text, "? Answer with ") && !strings.Contains(q.Text, ". Answer with ") {
			t.Errorf("%s does not say how to answer: %s", q.ID, q.Text)
		}
		if got := q.Judge(q.Right()); got != result.VerdictCorrect {
			t.Errorf("%s: %q is %s", q.ID, q.Right(), got)
		}
		for _, a := range q.Answers {
			if words(a) == "" {
				t.Errorf("%s: the answer %q has no word", q.ID, a)
			}
			if got := q.Judge(a); q.Key == "" && got != result.VerdictCorrect {
				t.Errorf("%s: %q is %s", q.ID, a, got)
			}
			if got := q.Judge("Let us see, " + a + " it must be"); got != result.VerdictWrongFormat {
				t.Errorf("%s: %q among other words is %s", q.ID, a, got)
			}
		}
		if got := q.Judge("Bananas"); got != result.VerdictWrong {
			t.Errorf("%s: bananas are %s", q.ID, got)
		}
	}
	if n := len(Questions()); n < 40 {
		t.Errorf("%d questions", n)
	}
}

// The answers of the questions, worked out again.
func TestAnswersAreTrue(t *testing.T) {
	yes := map[bool]string{true: "yes", false: "no"}
	rising := []int{7, 2, 9}
	slices.Sort(rising)
	truth := map[string]any{
		"sum": 17 + 25, "difference": 90 - 34, "product": 12 * 8, "quotient": 144 / 12, "half": 250 / 2,
		"percent": 700 * 10 / 100, "square": 15 * 15, "apples": 9 + 6 - 4, "thousands": 800 + 1200,
		"after-monday": time.Monday + 1, "before-june": time.June - 1, "days-in-april": time.Date(2026, time.April+1, 0, 0, 0, 0, 0, time.UTC).Day(),
		"last-month": time.Date(2026, time.December, 31, 0, 0, 0, 0, time.UTC).Month(), "weekday": time.Wednesday + 3, "two-weeks": 2 * 7,
		"metre": 1000 / 10, "hour": int(time.Hour / time.Minute), "kilogram": 2 * 1000, "dozen": 12,
		"largest": max(31, 87, 52), "smallest": min(64, 19, 45), "sort": strings.Trim(fmt.Sprint(rising), "[]"),
		"alphabet": min("pear", "melon", "apple"), "next-number": 20 + (20 - 15),
		"find-city": "Oslo", "find-job": "music", "find-number": 318, "find-colour": "blue", "find-code": "K7-42",
		"json-number": 6 * 7, "json-word": "cold", "json-true": 8%2 == 0,
		"first-letter": "garden"[:1], "letters": len("cat"), "plural": "children",
		"greater": yes[15 > 9], "fish": "no", "taller": "no", "cats": "yes",
		"spanish-water": "agua", "french-thanks": "merci", "german-house": "Haus", "capital": "Paris", "opposite": "down",
	}
	for _, q := range Questions() {
		want, ok := truth[q.ID]
		if !ok {
			t.Errorf("%s is not worked out here", q.ID)
			continue
		}
		if words(q.Answers[0]) != words(fmt.Sprint(want)) {
			t.Errorf("%s: the answer is %v, not %s", q.ID, want, q.Answers[0])
		}
		if strings.HasPrefix(q.ID, "find-") && !strings.Contains(q.Text, q.Answers[0]) {
			t.Errorf("%s: %s is not in the text", q.ID, q.Answers[0])
		}
	}
}

// hostile are texts of the size that are made to take long.
func hostile(size int) map[string]string {
	rng := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, size)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	return map[string]string{
		"noise": string(noise), "a": fill("a"), "a b": fill("a b "), "spaces": fill(" "), "commas": fill("1,"), "groups": fill("111,"),
		"dots": fill("1.1"), "signs": fill("-1"), "think": fill("<think>"), "thought": fill("</think>"), "commands": fill(`\a`),
		"arrays": fill("["), "objects": fill(`{"a":`), "numbers": "[" + fill("1e99,") + "1]", "huge": "1" + fill("0"), "marks": fill("\u0301"),
		"apostrophes": fill("a'"), "cjk": fill("哈"), "almost": fill("a b c d e f g h ") + "z", "phrases": fill("i can not be "),
	}
}

// What takes long would run into the time limit of the tests: see
// BenchmarkHostile for how long.
func TestHostileTexts(t *testing.T) {
	for name, text := range hostile(64 << 10) {
		for _, q := range []Question{find(t, "sum"), find(t, "json-number")} {
			if v := q.Judge(text); v == result.VerdictCorrect || !slices.Contains(result.Verdicts(), v) {
				t.Errorf("%s: %q is %s", q.ID, name, v)
			}
		}
		if v := Contains(text, "no such words"); v == result.VerdictCorrect {
			t.Errorf("%q is %s", name, v)
		}
		if v, _ := mustNew(t, person).Judge(workload.Answer{Text: text}); v == result.VerdictCorrect {
			t.Errorf("%q is %s", name, v)
		}
	}
}

func FuzzQuestion(f *testing.F) {
	for _, text := range hostile(200) {
		f.Add(0, text)
	}
	for i, q := range Questions() {
		f.Add(i, q.Right())
		f.Add(i, "```json\n"+q.Right()+"\n```")
		f.Add(i, "I'm sorry, I can't.")
	}
	f.Fuzz(func(t *testing.T, n int, text string) {
		all := Questions()
		q := all[int(uint(n)%uint(len(all)))]
		v := q.Judge(text)
		if !slices.Contains(result.Verdicts(), v) {
			t.Fatalf("verdict %q", v)
		}
		if again := q.Judge(text); again != v {
			t.Fatalf("%s, then %s", v, again)
		}
		if v == result.VerdictCorrect && q.Key == "" && Contains(text, q.Answers[0]) != result.VerdictCorrect && len(q.Answers) == 1 {
			t.Fatalf("%q is right and does not contain %q", text, q.Answers[0])
		}
	})
}

func FuzzContains(f *testing.F) {
	for _, text := range hostile(200) {
		f.Add(text, "a")
		f.Add("a", text)
	}
	f.Add("It is Paris.", "paris")
	f.Fuzz(func(t *testing.T, answer, expected string) {
		v := Contains(answer, expected)
		if !slices.Contains(result.Verdicts(), v) {
			t.Fatalf("verdict %q", v)
		}
		if again := Contains(answer, expected); again != v {
			t.Fatalf("%s, then %s", v, again)
		}
		if want := words(expected); want != "" && !strings.ContainsAny(answer, "<>") {
			// Words around what is expected change nothing about it.
			if got := Contains("so "+words(answer)+" "+want+" so", expected); got != result.VerdictCorrect {
				t.Fatalf("%s for an answer with the expected words in it", got)
			}
		}
	})
}

var shortAnswer = strings.Repeat("the quick answer to this question of yours is ", 6) + "42"

func BenchmarkQuestion(b *testing.B) {
	q := Questions()[0]
	for _, answer := range []string{"42", shortAnswer} {
		b.Run(strconv.Itoa(len(strings.Fields(answer)))+" words", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				q.Judge(answer)
			}
		})
	}
}

func BenchmarkHostile(b *testing.B) {
	q := Questions()[0]
	for name, text := range hostile(64 << 10) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				q.Judge(text)
			}
		})
	}
}

// A question with another text is another question: answers to it are compared over
// months, and servers see the text. The sum is of the texts of version 0.1.0.
func TestQuestionTextsAreFrozen(t *testing.T) {
	sum := sha256.New()
	for _, q := range Questions() {
		fmt.Fprintf(sum, "%s\x00%s\x00", q.ID, q.Text)
	}
	if got := fmt.Sprintf("%x", sum.Sum(nil)[:8]); got != "7dbb68cab698ca58" {
		t.Errorf("sum %s: a new text needs a new ID", got)
	}
}

package answers

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Question is a question whose answer is known.
type Question struct {
	// ID names the question for good.
	ID string
	// Text is what to ask. It asks for the answer alone.
	Text string
	// Answers are the ways to say the right answer; one at least.
	Answers []string
	// Key is set where the question asks for a JSON object: its one key, whose
	// value is one of Answers.
	Key string
}

// Right returns the answer that was asked for, as a model should give it.
func (q Question) Right() string {
	if q.Key == "" {
		return q.Answers[0]
	}
	value := q.Answers[0]
	if !json.Valid([]byte(value)) {
		value = strconv.Quote(value)
	}
	return fmt.Sprintf("{%q: %s}", q.Key, value)
}

// Judge says what an answer is worth. The answer is correct when it is one of
// the accepted ones in the sense of words, but for an opening such as "The
// answer is". It is in the wrong format when it is empty, or when it has an
// accepted answer in it and says more, were it only "not". What is written
// inside <think> is no part of it.
func (q Question) Judge(text string) result.Verdict {
	answer := answerPart(text)
	said := words(answer)
	if q.isRight(answer, said) {
		return result.VerdictCorrect
	}
	return q.fault(text, said)
}

func (q Question) isRight(answer, said string) bool {
	if q.Key != "" {
		value, ok := onlyValue(answer, q.Key)
		return ok && q.accepts(words(value))
	}
	return q.accepts(said) || q.accepts(withoutOpening(said))
}

func (q Question) accepts(said string) bool {
	for _, a := range q.Answers {
		if said == words(a) {
			return true
		}
	}
	return false
}

// fault says what is wrong with an answer that is not correct.
func (q Question) fault(text, said string) result.Verdict {
	if v := misbehaviour(text, said); v != "" {
		return v
	}
	if said == "" {
		return result.VerdictWrongFormat
	}
	for _, a := range q.Answers {
		if within(said, words(a)) {
			return result.VerdictWrongFormat
		}
	}
	return result.VerdictWrong
}

// onlyValue returns the value of a JSON object that has this one key.
func onlyValue(text, key string) (value string, ok bool) {
	var object map[string]any
	if json.Unmarshal([]byte(text), &object) != nil || len(object) != 1 {
		return "", false
	}
	switch v := object[key].(type) {
	case string:
		return v, true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// openings are the words before an answer that change nothing about it, longer
// ones before shorter ones that they begin with.
var openings = []string{
	"the final answer is ", "the correct answer is ", "the answer is ", "the answer would be ", "final answer ", "answer is ", "answer ",
	"the result is ", "result ", "it is ", "its ", "it would be ", "that is ", "thats ", "that would be ", "there are ", "there is ",
	"the number is ", "the word is ", "sure ", "certainly ", "of course ", "okay ", "ok ", "here is the answer ", "heres the answer ", "so ",
}

// withoutOpening cuts openings off: "Sure! The answer is" is two of them.
func withoutOpening(said string) string {
	for range 3 {
		for _, o := range openings {
			if rest, ok := strings.CutPrefix(said, o); ok {
				said = rest
				break
			}
		}
	}
	return said
}

// Contains judges an answer by what a prompt of the user's own expects: it is
// correct when it is what is expected, or has it in it, whole words in the sense
// of words. What is expected must not be empty; where it has no word, such as
// "+", the answer must have it in it as it is written.
func Contains(answer, expected string) result.Verdict {
	part := answerPart(answer)
	said, want := words(part), words(expected)
	if within(said, want) || want == "" && strings.Contains(part, strings.TrimSpace(expected)) {
		return result.VerdictCorrect
	}
	if v := misbehaviour(answer, said); v != "" {
		return v
	}
	if strings.TrimSpace(part) == "" {
		return result.VerdictWrongFormat
	}
	return result.VerdictWrong
}

// misbehaviour reports whether an answer that is not right refuses or runs in a
// loop, "" for neither. said are the words of the answer without its thoughts.
func misbehaviour(text, said string) result.Verdict {
	switch {
	case refuses(said):
		return result.VerdictRefused
	case loops(text):
		return result.VerdictRepetition
	}
	return ""
}

// Questions returns the built-in questions. They are in plain English and easy
// enough for a model of a billion parameters to get most of them right, so that
// it shows when a model gets worse. A question with another text is another
// question, and gets an ID of its own.
func Questions() []Question {
	return []Question{
		// Arithmetic.
		{ID: "sum", Text: "What is 17 + 25? Answer with the number only.", Answers: []string{"42", "forty-two"}},
		{ID: "difference", Text: "What is 90 minus 34? Answer with the number only.", Answers: []string{"56", "fifty-six"}},
		{ID: "product", Text: "What is 12 times 8? Answer with the number only.", Answers: []string{"96", "ninety-six"}},
		{ID: "quotient", Text: "What is 144 divided by 12? Answer with the number only.", Answers: []string{"12", "twelve"}},
		{ID: "half", Text: "What is half of 250? Answer with the number only.", Answers: []string{"125"}},
		{ID: "percent", Text: "What is 10 percent of 700? Answer with the number only.", Answers: []string{"70", "seventy"}},
		{ID: "square", Text: "What is 15 squared? Answer with the number only.", Answers: []string{"225"}},
		{ID: "apples", Text: "Anna has 9 apples, buys 6 more and gives 4 away. How many apples does she have now? Answer with the number only.", Answers: []string{"11", "eleven"}},
		{ID: "thousands", Text: "What is 800 + 1200? Answer with the number only.", Answers: []string{"2000", "two thousand"}},

		// Dates and times.
		{ID: "after-monday", Text: "Which day of the week comes after Monday? Answer with the day only.", Answers: []string{"Tuesday"}},
		{ID: "before-june", Text: "Which month comes just before June? Answer with the month only.", Answers: []string{"May"}},
		{ID: "days-in-april", Text: "How many days does April have? Answer with the number only.", Answers: []string{"30", "thirty", "30 days"}},
		{ID: "last-month", Text: "What is the last month of the year? Answer with the month only.", Answers: []string{"December"}},
		{ID: "weekday", Text: "If today is Wednesday, which day of the week is it in three days? Answer with the day only.", Answers: []string{"Saturday"}},
		{ID: "two-weeks", Text: "How many days are there in two weeks? Answer with the number only.", Answers: []string{"14", "fourteen", "14 days"}},

		// Units.
		{ID: "metre", Text: "How many centimetres are there in one metre? Answer with the number only.", Answers: []string{"100", "one hundred", "100 centimetres", "100 centimeters", "100 cm"}},
		{ID: "hour", Text: "How many minutes are there in one hour? Answer with the number only.", Answers: []string{"60", "sixty", "60 minutes"}},
		{ID: "kilogram", Text: "How many grams are there in two kilograms? Answer with the number only.", Answers: []string{"2000", "two thousand", "2000 grams", "2000 g"}},
		{ID: "dozen", Text: "How many eggs are there in one dozen? Answer with the number only.", Answers: []string{"12", "twelve", "12 eggs"}},

		// Order.
		{ID: "largest", Text: "Which of these numbers is the largest: 31, 87, 52? Answer with the number only.", Answers: []string{"87"}},
		{ID: "smallest", Text: "Which of these numbers is the smallest: 64, 19, 45? Answer with the number only.", Answers: []string{"19"}},
		{ID: "sort", Text: "Put these numbers in rising order: 7, 2, 9. Answer with the numbers only, with commas between them.", Answers: []string{"2, 7, 9"}},
		{ID: "alphabet", Text: "Which of these words comes first in the alphabet: pear, melon, apple? Answer with the word only.", Answers: []string{"apple"}},
		{ID: "next-number", Text: "Which number comes next: 5, 10, 15, 20? Answer with the number only.", Answers: []string{"25", "twenty-five"}},

		// Something to find in a short text.
		{ID: "find-city", Text: "Text: \"Maria moved from Lisbon to Oslo last spring and works there as a baker.\" In which city does Maria live now? Answer with the city only.", Answers: []string{"Oslo"}},
		{ID: "find-job", Text: "Text: \"Peter repairs clocks. His sister Ida teaches music.\" What does Ida teach? Answer with one word.", Answers: []string{"music"}},
		{ID: "find-number", Text: "Text: \"Room 214 is closed. Please use room 318 today.\" Which room should be used today? Answer with the number only.", Answers: []string{"318", "room 318"}},
		{ID: "find-colour", Text: "Text: \"The gate is green, the door is blue and the roof is red.\" Which colour has the door? Answer with the colour only.", Answers: []string{"blue"}},
		{ID: "find-code", Text: "Text: \"Your order K7-42 left our house this morning.\" What is the number of the order? Answer with the number of the order only.", Answers: []string{"K7-42"}},

		// Form.
		{ID: "json-number", Text: "What is 6 times 7? Answer with a JSON object that has the single key \"result\" and nothing else. Use no code block.", Key: "result", Answers: []string{"42"}},
		{ID: "json-word", Text: "What is the opposite of hot? Answer with a JSON object that has the single key \"word\" and nothing else. Use no code block.", Key: "word", Answers: []string{"cold"}},
		{ID: "json-true", Text: "Is 8 an even number? Answer with a JSON object that has the single key \"even\" with the value true or false, and nothing else. Use no code block.", Key: "even", Answers: []string{"true"}},

		// Letters.
		{ID: "first-letter", Text: "What is the first letter of the word \"garden\"? Answer with the letter only.", Answers: []string{"g"}},
		{ID: "letters", Text: "How many letters does the word \"cat\" have? Answer with the number only.", Answers: []string{"3", "three"}},
		{ID: "plural", Text: "What is the plural of the word \"child\"? Answer with the word only.", Answers: []string{"children"}},

		// Yes or no.
		{ID: "greater", Text: "Is 15 greater than 9? Answer with yes or no.", Answers: []string{"yes"}},
		{ID: "fish", Text: "Can a stone swim like a fish? Answer with yes or no.", Answers: []string{"no"}},
		{ID: "taller", Text: "Tom is taller than Ben, and Ben is taller than Max. Is Max taller than Tom? Answer with yes or no.", Answers: []string{"no"}},
		{ID: "cats", Text: "All cats are animals. Mia is a cat. Is Mia an animal? Answer with yes or no.", Answers: []string{"yes"}},

		// Words and things that everybody knows.
		{ID: "spanish-water", Text: "What is the Spanish word for \"water\"? Answer with the word only.", Answers: []string{"agua", "el agua"}},
		{ID: "french-thanks", Text: "What is the French word for \"thank you\"? Answer with the word only.", Answers: []string{"merci"}},
		{ID: "german-house", Text: "What is the German word for \"house\"? Answer with the word only.", Answers: []string{"Haus", "das Haus"}},
		{ID: "capital", Text: "What is the capital of France? Answer with the city only.", Answers: []string{"Paris"}},
		{ID: "opposite", Text: "What is the opposite of \"up\"? Answer with one word.", Answers: []string{"down"}},
	}
}

const (
	// MaxDeck is the most entries of a Deck.
	MaxDeck = 100_000
	// maxRound bounds a round, at 4 bytes for each turn.
	maxRound = 4 * MaxDeck
	// maxRatio is how many times as heavy as the lightest an entry can be.
	maxRatio = 1e6
)

// Deck draws from a list in rounds. In each round every entry has its turn
// before the next begins: the lightest once, and one that is twice as heavy
// twice. Between that, such as one of 1.5 times the weight, an entry comes one
// time more in some rounds than in others, so that its share is right on the
// average. The order within a round is random. Where weights are so far apart
// that a round would be too long, light entries miss rounds, and their share is
// still right. It is not safe for concurrent use.
type Deck struct {
	entries int
	weight  func(i int) float64 // relative to the lightest
	total   float64             // of the weights
	rng     *rand.Rand
	round   []int32 // the entries in the order of their turns
	next    int     // the turn that is next
}

// NewDeck returns a Deck of the entries 0 to n-1; n is 1 to MaxDeck. weight returns
// the weight of an entry, positive and finite, and the same at any time; nil
// makes all alike.
func NewDeck(n int, weight func(i int) float64, rng *rand.Rand) *Deck {
	d := &Deck{entries: n, rng: rng, weight: func(int) float64 { return 1 }}
	if weight != nil {
		lightest := math.Inf(1)
		for i := range n {
			lightest = min(lightest, weight(i))
		}
		d.weight = func(i int) float64 { return min(weight(i)/lightest, maxRatio) }
	}
	for i := range n {
		d.total += d.weight(i)
	}
	return d
}

// Next returns the entry whose turn it is.
func (d *Deck) Next() int {
	if d.next == len(d.round) {
		d.deal()
	}
	d.next++
	return int(d.round[d.next-1])
}

// deal begins a round. The entries lie side by side, each as wide as its weight;
// turns at equal distances, from a random start, fall on the entries whose turns
// they are. Distances of at most 1, the least width, miss none.
func (d *Deck) deal() {
	// A little less than what would be one turn more for a rounding error.
	turns := min(int(math.Ceil(d.total-1e-6)), maxRound)
	distance := d.total / float64(turns)
	// 32 bits are few enough for sums with the number of a turn to be exact.
	start := float64(d.rng.Uint32()) / (1 << 32)
	d.round, d.next = d.round[:0], 0
	for i, end := 0, 0.0; i < d.entries; i++ {
		end += d.weight(i)
		for len(d.round) < turns && (float64(len(d.round))+start)*distance < end {
			d.round = append(d.round, int32(i))
		}
	}
	d.rng.Shuffle(len(d.round), func(i, j int) { d.round[i], d.round[j] = d.round[j], d.round[i] })
}

// ToolQuestion is what to ask for one call of Tool. It demands the call, so that a
// model that can call functions at all makes it, and says what each argument is.
const ToolQuestion = "What is the weather in Paris now, in degrees Celsius? Call the function get_weather to find out. Do not answer from memory."

// Tool is the function to call. Its schema keeps to what every protocol takes:
// types, an enumeration and required members.
func Tool() api.Tool {
	return api.Tool{
		Name:        "get_weather",
		Description: "Returns the current weather in a city.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"city":{"type":"string","description":"Name of the city"},` +
			`"unit":{"type":"string","enum":["celsius","fahrenheit"],"description":"Unit of the temperature"}},` +
			`"required":["city","unit"]}`),
	}
}

// StructuredQuestion is what to ask for one answer that meets StructuredSchema. It
// names the members, for servers that tell the model nothing of the schema.
const StructuredQuestion = `The book "Emma" by Jane Austen was published in 1815. Answer with a JSON object with the members title, author, year (a number) and language (its code).`

// StructuredSchema is the schema of the answer. OpenAI demands that every member is
// required and that there are no others.
func StructuredSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"title":{"type":"string"},"author":{"type":"string"},"year":{"type":"integer"},` +
		`"language":{"type":"string","enum":["de","en","es","fr"]}},` +
		`"required":["title","author","year","language"],"additionalProperties":false}`)
}

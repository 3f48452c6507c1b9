package answers

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/asset"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Question is a question whose answer is known.
type Question struct {
	// ID names the question for good.
	ID string `yaml:"id"`
	// Text is what to ask. It asks for the answer alone.
	Text    string   `yaml:"text"`
	Answers []string `yaml:"answers"` // the ways to say the right answer; one at least
	// Key is set where the question asks for a JSON object: its one key, whose value is one of Answers.
	Key string `yaml:"key"`
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

// Judge says what an answer is worth. It is correct when it is an accepted one in the sense of words, but for an
// opening such as "The answer is", and in the wrong format when it is empty or says more. <think> is no part of it.
func (q Question) Judge(text string) result.Verdict {
	answer := answerPart(text)
	said := words(answer)
	if q.isRight(answer, said) {
		return result.VerdictCorrect
	}
	saysMore := func(a string) bool { return within(said, words(a)) }
	return notRight(text, said, said == "" || slices.ContainsFunc(q.Answers, saysMore))
}

func (q Question) isRight(answer, said string) bool {
	if q.Key != "" {
		value, ok := onlyValue(answer, q.Key)
		return ok && q.accepts(words(value))
	}
	return q.accepts(said) || q.accepts(withoutOpening(said))
}

func (q Question) accepts(said string) bool {
	return slices.ContainsFunc(q.Answers, func(a string) bool { return said == words(a) })
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

// withoutOpening cuts openings off: "Sure! The answer is" is two of them.
func withoutOpening(said string) string {
	for range 3 {
		for _, o := range phrases().Openings {
			if rest, ok := strings.CutPrefix(said, o); ok {
				said = rest
				break
			}
		}
	}
	return said
}

// Contains judges an answer by what a prompt of the user's own expects, not empty: it is correct when it has
// that in it, as whole words in the sense of words or, where that has no word, such as "+", as it is written.
func Contains(answer, expected string) result.Verdict {
	part := answerPart(answer)
	said, want := words(part), words(expected)
	if within(said, want) || want == "" && strings.Contains(part, strings.TrimSpace(expected)) {
		return result.VerdictCorrect
	}
	return notRight(answer, said, strings.TrimSpace(part) == "")
}

// notRight returns what an answer is worth that is not right, whether its format is wrong or what it says. said are the
// words of the answer without its thoughts.
func notRight(text, said string, isFormat bool) result.Verdict {
	switch {
	case refuses(said):
		return result.VerdictRefused
	case loops(text):
		return result.VerdictRepetition
	case isFormat:
		return result.VerdictWrongFormat
	}
	return result.VerdictWrong
}

//go:embed questions.yml
var questionsFile []byte

// Questions returns the built-in questions, which are not to be changed.
func Questions() []Question { return questions() }

var questions = asset.Once[[]Question]("questions.yml", questionsFile)

//go:embed phrases.yml
var phrasesFile []byte

// phrases returns what models say, as phrases.yml has it.
var phrases = asset.Once[struct {
	Openings, Refusals []string
	AngleTokens        []string `yaml:"angle_tokens"`
	SquareTokens       []string `yaml:"square_tokens"`
	ReasoningTags      []string `yaml:"reasoning_tags"`
	RawTexts           []string `yaml:"raw_texts"`
}]("phrases.yml", phrasesFile)

const (
	MaxDeck = 100_000 // the most entries of a Deck
	// maxRound bounds a round, at 4 bytes for each turn.
	maxRound = 4 * MaxDeck
	maxRatio = 1e6 // how many times as heavy as the lightest an entry can be
)

// Deck draws from a list in rounds, in random order: in each, the lightest entry has one turn, one twice as
// heavy two, and one of 1.5 times the weight two in every second round. Where a round would be too long, light
// entries miss rounds. It is not safe for concurrent use.
type Deck struct {
	entries int
	weight  func(i int) float64 // relative to the lightest
	total   float64             // of the weights
	rng     *rand.Rand
	round   []int32 // the entries in the order of their turns
	next    int     // the turn that is next
}

// NewDeck returns a Deck of the entries 0 to n-1; n is 1 to MaxDeck. weight is positive, finite and the same at
// any time; nil makes all alike.
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

// deal begins a round. The entries lie side by side, each as wide as its weight; turns at equal distances, at
// most 1, from a random start, fall on the entries whose turns they are.
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

//go:embed forms.yml
var formsFile []byte

// forms returns what is asked in a form, as forms.yml has it.
var forms = asset.Once[struct {
	Tool       struct{ Question, Name, Description, Parameters string }
	Structured struct{ Question, Schema string }
}]("forms.yml", formsFile)

// Tool is the function to call.
func Tool() api.Tool {
	t := forms().Tool
	return api.Tool{Name: t.Name, Description: t.Description, Parameters: json.RawMessage(t.Parameters)}
}

package drift

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// referenceSource has the reference passage scored, which never changes.
type referenceSource struct{}

func (referenceSource) Next(int, int) workload.Question {
	return workload.Question{Texts: []string{ReferencePassage}, ID: workload.Hash(ReferencePassage)}
}

// textsSource has the reference texts embedded or ranked, which never change.
type textsSource struct{}

func (textsSource) Next(int, int) workload.Question {
	return workload.Question{Texts: ReferenceTexts(), Query: ReferenceQuery}
}

const (
	// scoredPrompts is how many prompts are asked where replies have
	// log-probabilities.
	scoredPrompts = 8
	// asksPerDay is how often each prompt is asked in a day's answers where replies
	// have none: the fewer of the prompts a change moves, the more of them are needed.
	asksPerDay = 3
	// searchedPerPrompt is how many words are searched for each prompt.
	searchedPerPrompt = 2
	// searchRounds is how often each word is asked in search of border prompts.
	searchRounds = 3
)

// trackSource asks prompts of one word for their first token, in turn. Where replies have no
// log-probabilities, it first searches all words for border prompts (arXiv 2602.11083): those
// whose first token differs from time to time at temperature 0, because two tokens are about
// as likely, so that the least change of the model moves them. Other words fill up.
type trackSource struct {
	prompts int // how many to ask
	asked   int // runs so far
	scored  bool
	seen    []string // the first token to each word; "" before the first
	flips   []bool   // that another one came
	set     []int    // the words to ask; nil during the search
	// gives means that the server answers requests for log-probabilities, and refuses that it
	// refuses them.
	gives, refuses bool
}

func newTrackSource(prompts int) *trackSource {
	n := len(trackWords())
	return &trackSource{prompts: prompts, seen: make([]string, n), flips: make([]bool, n)}
}

func (b *trackSource) words() int { return searchedPerPrompt * b.prompts }

func (b *trackSource) Next(int, int) workload.Question {
	i := b.index()
	b.asked++
	word := trackWords()[i]
	q := workload.Question{
		Texts: []string{word}, ID: workload.Hash(word), Output: 1, Exact: true,
		First: func(f *result.FirstToken) { b.learn(i, f) },
	}
	if b.refuses {
		return q
	}
	without := q
	without.Instead = true // the refusal is no failure of the endpoint
	without.Next = func(asked workload.Asked) *workload.Question {
		b.refuses = asked.Result.Outcome == result.Success
		return nil
	}
	q.TopLogprobs = topLogprobs
	q.Next = func(asked workload.Asked) *workload.Question {
		b.gives = b.gives || asked.Result.Outcome == result.Success
		if b.gives || !mayRefuse(asked.Result.Outcome) {
			return nil
		}
		return &without
	}
	return q
}

// topLogprobs is how many of the likeliest first tokens are asked for; the hosted
// services that give fewest allow five.
const topLogprobs = 5

// mayRefuse reports whether a failure may be that of a server that gives no
// log-probabilities: llama-cpp-python ends the reply before it has begun, others answer
// with an error.
func mayRefuse(o result.Outcome) bool {
	switch o {
	case result.HTTPError, result.StreamError, result.ProtocolError, result.Empty, result.Truncated:
		return true
	}
	return false
}

func (b *trackSource) index() int {
	switch {
	case b.scored:
		return b.asked % scoredPrompts
	case b.asked < searchRounds*b.words():
		return b.asked % b.words()
	case b.set == nil:
		b.choose()
	}
	return b.set[b.asked%len(b.set)]
}

// learn takes the first token of the answer to word i.
func (b *trackSource) learn(i int, f *result.FirstToken) {
	b.scored = b.scored || len(f.Top) > 0
	if b.seen[i] != "" && b.seen[i] != f.Text {
		b.flips[i] = true
	}
	b.seen[i] = f.Text
}

// choose ends the search: border prompts come first.
func (b *trackSource) choose() {
	for _, flips := range [...]bool{true, false} {
		for i := range b.words() {
			if b.flips[i] == flips && len(b.set) < b.prompts {
				b.set = append(b.set, i)
			}
		}
	}
}

//go:embed words.txt
var wordsFile string

// trackWords returns the words of words.txt.
var trackWords = sync.OnceValue(func() (all []string) {
	for line := range strings.Lines(wordsFile) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, strings.Fields(line)...)
		}
	}
	return all
})

// ReferencePassage is the text whose log-probability is watched. It never
// changes: a change would look like one of the model.
const ReferencePassage = `The old mill at the bend of the river has not ground any flour for sixty years, yet people still come to look at it. ` +
	`Its wheel is stuck, half of the roof is gone, and a young birch has taken root where the miller used to keep his sacks. ` +
	`On Sundays the path along the bank is full of families from the town. ` +
	`Children throw stones into the deep water below the weir and argue about how far down it goes, while their parents spread blankets on the grass and open baskets with bread, cheese and cold tea.

` +
	`Nobody remembers exactly why the mill was closed. Some say that the railway made it cheaper to bring flour from the coast. ` +
	`Others tell of a flood that broke the gates one night in March, after a week of rain, and left a layer of mud as high as a table in every room. ` +
	`The records of the parish mention both, but they also mention a quarrel between two brothers, and in a village a quarrel often explains more than the weather does.

` +
	`Last autumn a group of engineers measured the fall of the stream and wrote a short report. ` +
	`A small turbine, they found, could supply forty houses with electricity for most of the year, provided that fish were given a way around it. ` +
	`The council has asked for a second opinion and will vote before the end of June. ` +
	`Until then the mill stays what it has been for so long: a quiet place with thick walls, where swallows nest and where, if you stand still for a minute, you can hear the water do its patient work.`

// ReferenceQuery is what an endpoint that ranks compares ReferenceTexts with. It never
// changes either.
const ReferenceQuery = "How do I keep bread from going stale?"

// ReferenceTexts returns the texts whose embeddings or scores are watched: of several
// languages and kinds, from an answer to ReferenceQuery to what has nothing to do with
// it. They never change: a change would look like one of the model.
func ReferenceTexts() []string {
	return []string{
		"Keep bread in a paper bag inside a closed box at room temperature, with the cut side down. In the refrigerator it goes stale sooner, in the freezer it keeps for months.",
		"Brot bleibt im Steinguttopf oder in einem Leinenbeutel mehrere Tage frisch. Im Kühlschrank wird es schneller altbacken.",
		"Starch recrystallises as a loaf cools and ages. Heating it to 60 degrees reverses that for a while, which is why old rolls are good again from the oven.",
		"The bakery in the station opens at half past five and sells rolls, pretzels and coffee to commuters.",
		"The committee postponed its vote on the harbour bridge until the noise measurements of both summers have been compared.",
		"今年的雨季比往年来得晚,农民们担心水稻的收成。",
		"func sum(values []float64) (total float64) {\n\tfor _, v := range values {\n\t\ttotal += v\n\t}\n\treturn total\n}",
		"2026-03-14 09:26:53 42.195 km 3:59:08 +1.7 % EUR 1,204.50",
	}
}

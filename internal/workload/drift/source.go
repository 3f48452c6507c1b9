package drift

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/asset"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

type fixedSource struct{ question workload.Question }

func (f fixedSource) Next(int, int) workload.Question { return f.question }

// newReferenceSource has the reference passage scored.
func newReferenceSource(*config.Endpoint, *config.Module) (workload.Source, error) {
	passage := Reference().Passage
	return fixedSource{workload.Question{Texts: []string{passage}, ID: workload.Hash(passage)}}, nil
}

// newTextsSource has the reference texts embedded or ranked.
func newTextsSource(*config.Endpoint, *config.Module) (workload.Source, error) {
	return fixedSource{workload.Question{Texts: Reference().Texts, Query: Reference().Query}}, nil
}

const (
	// scoredPrompts is how many prompts are asked where replies have log-probabilities.
	scoredPrompts = 8
	// asksPerDay is how often each prompt is asked in a day's answers where replies
	// have none: the fewer of the prompts a change moves, the more of them are needed.
	asksPerDay        = 3
	searchedPerPrompt = 2 // how many words are searched for each prompt
	searchRounds      = 3 // how often each word is asked in search of border prompts
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
	// gives means that the server answers requests for log-probabilities, and refuses that it refuses them.
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

// topLogprobs is how many of the likeliest first tokens are asked for; the hosted services that give fewest allow five.
const topLogprobs = 5

// mayRefuse reports whether a failure may be that of a server without log-probabilities: llama-cpp-python ends
// the reply before it has begun, others answer with an error.
func mayRefuse(o result.Outcome) bool {
	return slices.Contains([]result.Outcome{result.HTTPError, result.StreamError, result.ProtocolError, result.Empty, result.Truncated}, o)
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

var trackWords = sync.OnceValue(func() (all []string) {
	for line := range strings.Lines(wordsFile) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, strings.Fields(line)...)
		}
	}
	return all
})

// References are the texts of reference_logprob and reference_texts.
type References struct {
	Passage string // the text whose log-probability is watched
	// Texts are those whose embeddings or scores are watched, and Query what an endpoint that ranks compares them with.
	Texts []string
	Query string
}

//go:embed reference.yml
var referenceFile []byte

// Reference returns the texts, which never change.
func Reference() References { return reference() }

var reference = asset.Once[References]("reference.yml", referenceFile)

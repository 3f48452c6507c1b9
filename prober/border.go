package prober

import (
	"context"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/check"
)

const (
	// topLogprobs is how many of the likeliest first tokens are asked for; the hosted
	// services that give fewest allow five.
	topLogprobs = 5
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

// borderSource asks prompts of one word for their first token, in turn. Where replies
// have no log-probabilities, it first asks all words a few times in search of border
// prompts: those whose first token differs from time to time at temperature 0, because
// two tokens are about as likely, so that the least change of the model moves them
// (Chauvin et al., Token-Efficient Change Detection in LLM APIs, arXiv 2602.11083).
// Other words fill up what there are too few of.
type borderSource struct {
	prompts int // how many to ask
	asked   int // runs so far
	scored  bool
	seen    [len(trackWords)]string // the first token to each word; "" before the first
	flips   [len(trackWords)]bool   // that another one came
	set     []int                   // the words to ask; nil during the search
}

// newBorderSource returns a source for a module.
func newBorderSource(m *config.Module) *borderSource {
	return &borderSource{prompts: m.TrackedAnswers() / asksPerDay}
}

// words is how many words are searched.
func (b *borderSource) words() int { return searchedPerPrompt * b.prompts }

func (b *borderSource) next(int, int) question {
	i := b.index()
	b.asked++
	word := trackWords[i]
	return question{
		texts: []string{word}, id: check.Hash(word), output: 1, exact: true,
		first: func(f *result.FirstToken) { b.learn(i, f) },
	}
}

// index returns which word to ask.
func (b *borderSource) index() int {
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
func (b *borderSource) learn(i int, f *result.FirstToken) {
	b.scored = b.scored || len(f.Top) > 0
	if b.seen[i] != "" && b.seen[i] != f.Text {
		b.flips[i] = true
	}
	b.seen[i] = f.Text
}

// choose ends the search: border prompts come first.
func (b *borderSource) choose() {
	for _, flips := range [...]bool{true, false} {
		for i := range b.words() {
			if b.flips[i] == flips && len(b.set) < b.prompts {
				b.set = append(b.set, i)
			}
		}
	}
}

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

// track asks for one first token: with its log-probabilities, unless the server refuses
// requests for them. Until it has answered one, a failure is tried again without.
func (r *run) track(ctx context.Context) *result.Skip {
	q, why := r.next()
	if why != nil {
		return why
	}
	p := r.prober
	asked := r.request(q)
	if !p.noLogprobs {
		asked.topLogprobs = topLogprobs
	}
	why = r.send(ctx, asked)
	p.logprobs = p.logprobs || asked.topLogprobs > 0 && asked.result.Outcome == result.Success
	if p.logprobs || p.noLogprobs || !mayRefuse(asked.result.Outcome) {
		return why
	}
	without := r.request(q)
	why = r.send(ctx, without)
	if p.noLogprobs = without.result.Outcome == result.Success; p.noLogprobs {
		r.results = r.results[1:] // the refusal is no failure of the endpoint
	} else {
		r.results = r.results[:1]
	}
	return why
}

// trackWords are short, so that most tokenizers have a token for each, and have no
// obvious answer.
var trackWords = [...]string{
	"x", "red", "who", "ten", "up", "salt", "go", "blue",
	"why", "cat", "map", "is", "one", "sun", "note", "run",
	"la", "tea", "no", "key", "we", "old", "bit", "sea",
	"or", "hat", "how", "ice", "zero", "her", "pen", "mix",
	"day", "as", "toe", "lot", "ring", "by", "fox", "song",
	"oil", "if", "win", "road", "ha", "dry", "log", "an",
	"gold", "let", "egg", "on", "wave", "fit", "jar", "it",
	"moon", "bee", "at", "cold", "nut", "so", "page", "ok",
	"ace", "act", "add", "age", "ago", "aid", "aim", "air", "all", "and", "ant", "any", "ape", "apt", "arc", "are",
	"ark", "arm", "art", "ash", "ask", "ate", "axe", "bad", "bag", "ban", "bar", "bat", "bay", "bed", "beg", "bet",
	"bid", "big", "bin", "box", "boy", "bud", "bug", "bus", "but", "buy", "cab", "cap", "car", "cob", "cod", "cow",
	"cry", "cub", "cup", "cut", "dad", "dam", "den", "did", "die", "dig", "dim", "dip", "dog", "dot", "due", "dug",
	"ear", "eat", "eel", "elf", "elm", "end", "era", "eve", "eye", "fan", "far", "fat", "fed", "fee", "few", "fig",
	"fin", "fir", "fix", "fly", "foe", "fog", "for", "fun", "fur", "gap", "gas", "gem", "get", "gin", "got", "gum",
	"gun", "gut", "guy", "gym", "ham", "has", "hay", "hen", "hid", "him", "hip", "his", "hit", "hop", "hot", "hub",
	"hug", "hut", "ill", "ink", "inn", "its", "jam", "jaw", "jet", "job", "jog", "joy", "jug", "keg", "kid", "kin",
	"kit", "lab", "lad", "lap", "law", "lay", "led", "leg", "lid", "lie", "lip", "lit", "low", "mad", "man", "mat",
	"may", "men", "met", "mob", "mop", "mud", "mug", "nap", "net", "new", "nod", "nor", "not", "now", "oak", "oar",
	"oat", "odd", "off", "our", "out", "owl", "own", "pad", "pan", "pat", "paw", "pay", "pea", "pet", "pie", "pig",
	"pin", "pit", "pod", "pop", "pot", "put", "rag", "ram", "ran", "rat", "raw", "ray", "rib", "rid", "rim", "rip",
	"rob", "rod", "rot", "row", "rub", "rug", "sad", "sat", "saw", "say", "set", "she", "shy", "sin", "sip", "sir",
	"sit", "six", "sky", "son", "spa", "spy", "sum", "tab", "tag", "tan", "tap", "tar", "tax", "the", "tie", "tin",
	"tip", "ton", "too", "top", "toy", "try", "tub", "two", "use", "van", "vet", "vow", "war", "was", "way", "web",
	"wet", "wig", "wit", "yes", "yet", "you", "zip", "able", "army", "aunt", "baby", "back", "ball", "band", "bank", "barn",
}

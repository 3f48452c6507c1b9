package simulator

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// weights is what may change about the model while it is served; see Options. It is never changed once published.
type weights struct {
	version        string
	shift, quality float64
}

// fingerprint is the system_fingerprint of the replies; "" is none.
func (w *weights) fingerprint() string {
	if w.version == "" {
		return ""
	}
	return fmt.Sprintf("fp_%010x", hashText("fingerprint", w.version)>>24)
}

// SetWeights changes Options.WeightsVersion, LogprobShift and Quality while the server runs. Requests that have arrived
// end with what was. quality is from 0 to 1, and 0 is none.
func (s *Server) SetWeights(version string, logprobShift, quality float64) {
	s.weights.Store(&weights{version, logprobShift, quality})
}

// changeWeights sets the weights to version, shift and quality; what is left out stays as it is.
func (s *Server) changeWeights(q url.Values) error {
	next := *s.weights.Load()
	if q.Has("version") {
		next.version = q.Get("version")
	}
	for name, p := range map[string]*float64{"shift": &next.shift, "quality": &next.quality} {
		if q.Has(name) {
			v, err := strconv.ParseFloat(q.Get(name), 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				return badRequest("%s must be a number", name)
			}
			*p = v
		}
	}
	if next.quality < 0 || next.quality > 1 {
		return badRequest("quality must be from 0 to 1")
	}
	s.weights.Store(&next)
	return nil
}

// token identifies one token; equal prompts have equal tokens.
type token uint64

const (
	bytesPerToken  = 4  // how much of a word one token covers
	templateTokens = 12 // what a chat template adds, half of it on each side

	templateToken  token = 1 << 40
	generatedToken token = 1 << 41
	randomToken    token = 1 << 42
)

// tokenize appends the tokens of text: words are separated by white space, and each costs one token per four bytes begun.
func tokenize(dst []token, text string) []token {
	for from, to := range pieces(text) {
		t := token(to-from) << 32
		for i := range to - from {
			t |= token(text[from+i]) << (8 * i)
		}
		dst = append(dst, t)
	}
	return dst
}

// pieces goes through the bounds of the tokens of text, in bytes.
func pieces(text string) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for at := 0; ; {
			if at = len(text) - len(strings.TrimLeftFunc(text[at:], unicode.IsSpace)); at == len(text) {
				return
			}
			to := min(at+bytesPerToken, len(text))
			if n := strings.IndexFunc(text[at:min(to+utf8.UTFMax, len(text))], unicode.IsSpace); n > 0 {
				to = min(to, at+n)
			}
			if !yield(at, to) {
				return
			}
			at = to
		}
	}
}

func inTemplate(conversation []token) []token {
	all := make([]token, 0, len(conversation)+templateTokens)
	for i := range token(templateTokens) {
		if i == templateTokens/2 {
			all = append(all, conversation...)
		}
		all = append(all, templateToken|i)
	}
	return all
}

// scores are the log-probabilities of a reply that is not streamed.
type scores struct {
	text   string // the prompt, where it is wanted
	Prompt []tokenScore
	Output []tokenScore
}

// tokenScore is one token with its log-probability in nats.
type tokenScore struct {
	ID      int
	Text    string
	Offset  int      // characters before it, in the prompt and the output
	Logprob *float64 // nil is none: nothing comes before the first token
}

// All returns the tokens of the prompt and of the output.
func (s *scores) All() []tokenScore { return slices.Concat(s.Prompt, s.Output) }

// What the log-probability of a token is made of: at most highest, below it by a number drawn for the token,
// exponential with mean spread. The mean over a long text is highest - spread.
const (
	highest        = -0.5
	spread         = 1.8
	outputLogprob  = -0.25   // that of each token of the model's own
	vocabularySize = 128_000 // bounds the ids of tokens
)

// score returns the log-probabilities that the request wants, of an output of that length; nil where it wants none.
func (x *exchange) score(tokens int) *scores {
	a := &x.request
	if !a.logprobs {
		return nil
	}
	var s scores
	offset := 0
	if a.echo {
		s.text = a.text
		s.Prompt = scoreText(a.text, x.weights, x.s.scoreNoise())
		s.Prompt = s.Prompt[min(a.scoreFrom, len(s.Prompt)):]
		offset = utf8.RuneCountInString(a.text)
		if n := len(s.Prompt); n > 0 {
			s.Prompt[0].Logprob = nil
			mean := 0.0
			for _, t := range s.Prompt[1:] {
				mean += *t.Logprob / float64(n-1)
			}
			x.rec.update(func(r *Record) { r.Logprob = mean })
		}
	}
	for i := range tokens {
		t := string(x.appendToken(nil, i))
		s.Output = append(s.Output, tokenScore{ID: tokenID(hashText(t)), Text: t, Offset: offset, Logprob: new(outputLogprob)})
		offset += utf8.RuneCountInString(t)
	}
	return &s
}

// scoreNoise draws what is added to each token of one request.
func (s *Server) scoreNoise() float64 { return s.o.LogprobNoise * s.rng.NormFloat64() }

// scoreText returns the tokens of text, with a log-probability that depends on the weights' version and all tokens up
// to it, and on noise. The white space in front of a token is part of it.
func scoreText(text string, w *weights, noise float64) []tokenScore {
	var all []tokenScore
	h := hashText("logprob", w.version)
	end, offset, next := 0, 0, 0
	for _, to := range pieces(text) {
		t := tokenScore{Text: text[end:to], Offset: offset}
		id := hashText(t.Text)
		h = mix(h, id)
		p := min(0, highest+spread*logOf(h)+w.shift+noise)
		t.ID, t.Logprob = tokenID(id), &p
		all = append(all, t)
		for ; next < to; next++ {
			if utf8.RuneStart(text[next]) {
				offset++
			}
		}
		end = to
	}
	return all
}

func tokenID(hash uint64) int { return int(hash % vocabularySize) }

// logOf returns the logarithm of a number between 0 and 1, neither included, that a hash decides.
func logOf(hash uint64) float64 { return math.Log((float64(hash>>11) + 0.5) / (1 << 53)) }

const (
	firstTokens = 5   // how many tokens a first token is drawn from
	firstSpread = 1.0 // the mean difference of the log-probabilities of neighbours, in nats
	quantized   = 0.1 // by how much each log-probability moves at Options.QuantizeAfter
)

// isQuantized reports whether Options.QuantizeAfter is over.
func (s *Server) isQuantized() bool {
	return s.o.QuantizeAfter > 0 && time.Since(s.started) > s.o.QuantizeAfter
}

// drawFirst decides the first token of an answer of one token to a greedy request, by log-probabilities that depend on
// the weights, and on noise: where the two likeliest are as close as the noise, one or the other is first. LogprobShift
// moves each of them up or down, as other arithmetic does. Without WeightsVersion the model counts, and all of its
// first tokens are alike.
func (x *exchange) drawFirst() {
	a, w := &x.request, x.weights
	if a.maxOutput != 1 || a.sampled || w.version == "" || x.text.fixed != nil || x.reasoning > 0 {
		return
	}
	shift := w.shift
	if x.s.isQuantized() {
		shift += quantized
	}
	order := x.text.order
	p := -0.5
	var top []tokenScore
	for i := range firstTokens {
		h := mix(order, uint64(i)+1_000)
		moved := shift
		if h&1 == 0 {
			moved = -moved
		}
		logprob := min(0, p+moved+x.s.scoreNoise())
		word := answerText{order: mix(order, uint64(i)+2_000)}
		text := string(word.append(nil, 0))
		top = append(top, tokenScore{ID: tokenID(hashText(text)), Text: text, Logprob: &logprob})
		p += firstSpread * logOf(h) // an exponential step down
	}
	slices.SortStableFunc(top, func(a, b tokenScore) int { return cmp.Compare(*b.Logprob, *a.Logprob) })
	if x.text.flipAt == 0 {
		x.text.fixed = []string{top[0].Text}
	}
	x.top = top[:min(a.top, len(top))]
}

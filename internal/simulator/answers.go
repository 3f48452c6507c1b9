package simulator

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/check"
)

// answerTo returns the words of the answer to a prompt that ends with one of
// check.Questions, and what it is worth; false for any other prompt. A greedy
// answer depends on the weights alone: of n questions the model then knows
// n x quality, rounded, and which ones is the version's. A sampled answer is
// drawn.
func (s *Server) answerTo(a *request, w *weights) ([]string, result.Verdict, bool) {
	text := strings.TrimSpace(a.text)
	i := slices.IndexFunc(s.questions, func(q check.Question) bool { return strings.HasSuffix(text, q.Text) })
	if i < 0 {
		return nil, "", false
	}
	id := s.questions[i].ID
	known := float64(s.rank(id, w)) < math.Round(w.quality*float64(len(s.questions)))
	kind := int(hashText("kind", w.version, id) % uint64(len(result.AnswerVerdicts())-1))
	if a.sampled {
		s.mu.Lock()
		known = s.rng.Float64() < w.quality
		kind = s.rng.IntN(len(result.AnswerVerdicts()) - 1)
		s.mu.Unlock()
	}
	verdict := result.VerdictCorrect
	if !known {
		verdict = slices.DeleteFunc(result.AnswerVerdicts(), func(v result.Verdict) bool { return v == result.VerdictCorrect })[kind]
	}
	return strings.Fields(s.answerOf(i, verdict)), verdict, true
}

// rank is the place of a question in the order in which weights of a version
// learn them, from 0.
func (s *Server) rank(id string, w *weights) int {
	order := func(id string) uint64 { return hashText("question", w.version, id) }
	rank := 0
	for _, q := range s.questions {
		if order(q.ID) < order(id) {
			rank++
		}
	}
	return rank
}

// answerOf returns an answer to question i that is worth the verdict.
func (s *Server) answerOf(i int, v result.Verdict) string {
	q := s.questions[i]
	switch v {
	case result.VerdictWrong:
		return s.wrongAnswer(i)
	case result.VerdictWrongFormat:
		return "Having thought about it I would say " + q.Answers[0] + " but please do check that."
	case result.VerdictRefused:
		return "I am sorry, but I cannot help with that."
	case result.VerdictRepetition:
		return strings.Repeat("and then once more ", 12)
	}
	return q.Right()
}

// wrongAnswer is the answer to one of the next questions, in the form that
// question i wants.
func (s *Server) wrongAnswer(i int) string {
	q := s.questions[i]
	for n := range s.questions {
		other := s.questions[(i+1+n)%len(s.questions)].Answers[0]
		if slices.Contains(q.Answers, other) {
			continue
		}
		if q.Key != "" {
			return fmt.Sprintf("{%q: %q}", q.Key, other)
		}
		return other
	}
	return "" // cannot happen: questions have several answers
}

// vocabulary is the words of the simulated model: the numbers from zero to
// ninety-nine, one word per token.
type vocabulary []string

func newVocabulary() vocabulary {
	small := strings.Fields(`zero one two three four five six seven eight nine ten eleven twelve
		thirteen fourteen fifteen sixteen seventeen eighteen nineteen`)
	tens := strings.Fields("twenty thirty forty fifty sixty seventy eighty ninety")
	v := vocabulary(small)
	for _, ten := range tens {
		v = append(v, ten)
		for _, one := range small[1:10] {
			v = append(v, ten+"-"+one)
		}
	}
	return v
}

// answerText is the text of one answer, a word a token. The zero value counts from
// zero, again and again.
type answerText struct {
	// fixed is the answer to a question; the words of the vocabulary come after.
	fixed []string
	// tight means that no space is between the words of fixed.
	tight bool
	// offset is the word of the vocabulary that it begins with, and order what
	// decides the order of the words; 0 is to count.
	offset int
	order  uint64
	// flipAt is the word, counted from 1, from which on the answer says something
	// else than it would have; 0 is none.
	flipAt int
}

// append appends word i, after the space that separates it.
func (p *answerText) append(dst []byte, v vocabulary, i int) []byte {
	if i > 0 && !p.tight {
		dst = append(dst, ' ')
	}
	if i < len(p.fixed) {
		return append(dst, p.fixed[i]...)
	}
	word := i
	if p.order != 0 {
		word = int(mix(p.order, uint64(i)) % uint64(len(v)))
	}
	if p.flipAt > 0 && i+1 >= p.flipAt {
		word += len(v) / 2
	}
	return append(dst, v[(p.offset+word)%len(v)]...)
}

package simulator

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/inference-exporter/inference_exporter/prober/check"
)

// answerTo returns the words of the answer to a prompt that ends with one of
// check.Questions, and what it is worth; false for any other prompt. A greedy
// answer depends on the weights alone: of n questions the model then knows
// n x quality, rounded, and which ones is the version's. A sampled answer is
// drawn.
func (s *Server) answerTo(a *ask, w *weights) ([]string, check.Verdict, bool) {
	text := strings.TrimSpace(a.text)
	i := slices.IndexFunc(s.questions, func(q check.Question) bool { return strings.HasSuffix(text, q.Text) })
	if i < 0 {
		return nil, "", false
	}
	id := s.questions[i].ID
	known := float64(s.rank(id, w)) < math.Round(w.quality*float64(len(s.questions)))
	kind := int(hashText("kind", w.version, id) % uint64(len(check.Verdicts())-1))
	if a.sampled {
		s.mu.Lock()
		known = s.rng.Float64() < w.quality
		kind = s.rng.IntN(len(check.Verdicts()) - 1)
		s.mu.Unlock()
	}
	verdict := check.Correct
	if !known {
		verdict = slices.DeleteFunc(check.Verdicts(), func(v check.Verdict) bool { return v == check.Correct })[kind]
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
func (s *Server) answerOf(i int, v check.Verdict) string {
	q := s.questions[i]
	switch v {
	case check.Wrong:
		return s.wrongAnswer(i)
	case check.WrongFormat:
		return "Having thought about it I would say " + q.Answers[0] + " but please do check that."
	case check.Refused:
		return "I am sorry, but I cannot help with that."
	case check.Repetition:
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

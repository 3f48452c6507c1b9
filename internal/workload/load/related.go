package load

import (
	cryptorand "crypto/rand"
	"encoding/hex"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// begin returns the first question of a run, as the one of a pair or of a conversation if the module asks for these.
func (a *source) begin(q workload.Question) workload.Question {
	switch a.module.Prefix {
	case config.PrefixPaired:
		return askedTwice(q)
	case config.PrefixConversation:
		return a.conversation(q)
	}
	return q
}

// askedTwice returns a cold prompt that is asked twice, kept together by a balancer that is configured to.
func askedTwice(q workload.Question) workload.Question {
	q.Session = newSession()
	q.Next = func(before workload.Asked) *workload.Question {
		if before.Result.Outcome != result.Success {
			return nil
		}
		again := q
		again.Prefix, again.Next = config.PrefixWarm, nil
		again.Learn = nil // some servers do not count what they have cached
		return &again
	}
	return q
}

// conversation returns a cold prompt, after which turns follow that each repeat all before them.
// Where a balancer can be told to keep turns together, it is in every second one.
func (a *source) conversation(q workload.Question) workload.Question {
	q.Turn = &result.Turn{Number: 1, Affinity: result.AffinityNone}
	if a.sticky {
		a.begun++
		if a.begun%2 == 1 {
			q.Session, q.Turn.Affinity = newSession(), result.AffinitySession
		}
	}
	return a.goingOn(q)
}

// goingOn returns a turn that is followed by the next one, unless it is the last.
func (a *source) goingOn(q workload.Question) workload.Question {
	q.Next = func(before workload.Asked) *workload.Question {
		if before.Result.Outcome != result.Success || q.Turn.Number == a.module.Turns {
			return nil
		}
		next := a.goingOn(nextTurn(q, before.Text))
		return &next
	}
	return q
}

// newSession returns a value of the header by which a balancer keeps requests together.
func newSession() string {
	var id [16]byte
	_, _ = cryptorand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// goOn is what the user says in each turn after the first, which makes the model write on until it is cut.
const goOn = "Go on counting from there in words, without any remark and without an end."

// nextTurn returns the turn after one that was answered. An answer without text, such
// as one that was cut while the model still reasoned, is left out, as clients do.
func nextTurn(q workload.Question, answer string) workload.Question {
	var said []api.Message
	if len(q.Messages) == 0 {
		said = append(said, api.Message{Role: "user", Content: q.Texts[0]})
	}
	if answer != "" {
		said = append(said, api.Message{Role: "assistant", Content: answer})
	}
	said = append(said, api.Message{Role: "user", Content: goOn})
	q.Messages = append(q.Messages[:len(q.Messages):len(q.Messages)], said...)
	q.Texts, q.Length, q.Learn = nil, 0, nil
	q.Prefix, q.Turn = config.PrefixWarm, &result.Turn{Number: q.Turn.Number + 1, Affinity: q.Turn.Affinity}
	return q
}

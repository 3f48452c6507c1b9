package prober

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// related is how the requests of a run follow each other whose prompts begin alike.
type related struct {
	requests int
	sticky   string                           // of all of them; "" is none
	affinity result.Affinity                  // of a conversation; "" for a pair
	next     func(*request) workload.Question // what to ask after a request that succeeded
}

// pair is a cold prompt and the same prompt again. A balancer that is configured to
// keeps the two together.
func pair() related {
	return related{requests: 2, sticky: newSession(), next: func(before *request) workload.Question {
		q := before.question
		q.Learn = nil // some servers do not count what they have cached
		return q
	}}
}

// conversation is a cold prompt, and then turns that each repeat all before them.
// Where a balancer can be told to keep turns together, it is in every second one.
func (p *Prober) conversation() related {
	c := related{requests: p.module.Turns, affinity: result.AffinityNone, next: nextTurn}
	if p.endpoint.cfg.Request.StickyHeader != "" {
		p.conversations++
		if p.conversations%2 == 1 {
			c.sticky, c.affinity = newSession(), result.AffinitySession
		}
	}
	return c
}

// newSession returns a value of the header by which a balancer keeps requests
// together.
func newSession() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// related sends a cold prompt and, as long as they succeed, the requests that follow
// from it.
func (r *run) related(ctx context.Context, how related) *result.Skip {
	q, why := r.next()
	if why != nil {
		return why
	}
	for turn := 1; ; turn++ {
		req := r.request(q)
		req.sticky = how.sticky
		if turn > 1 {
			req.result.Prefix = string(config.PrefixWarm)
		}
		if how.affinity != "" {
			req.result.Turn = &result.Turn{Number: turn, Affinity: how.affinity}
		}
		why := r.send(ctx, req)
		if why != nil || req.result.Outcome != result.Success || turn == how.requests {
			return why
		}
		q = how.next(req)
	}
}

// goOn is what the user says in each turn after the first, which makes the model
// write on until it is cut.
const goOn = "Go on counting from there in words, without any remark and without an end."

// nextTurn returns the turn after one that was answered. An answer without text, such
// as one that was cut while the model still reasoned, is left out, as clients do.
func nextTurn(before *request) workload.Question {
	q := before.question
	var said []api.Message
	if len(q.Messages) == 0 {
		said = append(said, api.Message{Role: "user", Content: q.Texts[0]})
	}
	if text := string(before.answer.text); text != "" {
		said = append(said, api.Message{Role: "assistant", Content: text})
	}
	said = append(said, api.Message{Role: "user", Content: goOn})
	q.Messages = append(q.Messages[:len(q.Messages):len(q.Messages)], said...)
	q.Texts, q.Length, q.Learn = nil, 0, nil
	return q
}

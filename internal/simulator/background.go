package simulator

import (
	"context"
	"math/rand/v2"
)

// keepBusy runs one background sequence after another until ctx ends.
func (s *Server) keepBusy(ctx context.Context, index int) {
	rng := rand.New(rand.NewPCG(s.o.Seed, uint64(index)+1))
	r := s.replicas[index%len(s.replicas)]
	for ctx.Err() == nil {
		output := max(1, min(around(rng, s.o.BackgroundOutput), s.o.ContextLength/2))
		q := newSequence(s.backgroundPrompt(rng), output, finishLength)
		q.quiet = true
		if !r.submit(q) {
			// The queue is full of users; wait for as long as a step.
			if sleep(ctx, s.o.DecodeStep) != nil {
				return
			}
			continue
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			r.abort(q)
		}
	}
}

// backgroundPrompt is random tokens after a beginning that all share.
func (s *Server) backgroundPrompt(rng *rand.Rand) []token {
	prompt := make([]token, max(1, min(around(rng, s.o.BackgroundInput), s.o.ContextLength/2)))
	for i := range prompt {
		prompt[i] = randomToken | token(i)
		if i >= s.o.BackgroundInput/4 {
			prompt[i] = randomToken | token(rng.Uint64N(1<<40))
		}
	}
	return prompt
}

// around draws evenly from half to one and a half of mean.
func around(rng *rand.Rand, mean int) int { return mean/2 + rng.IntN(mean+1) }

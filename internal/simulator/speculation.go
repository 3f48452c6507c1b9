package simulator

// drafts is how many tokens are proposed for each step with Options.TokensPerEvent.
const drafts = 4

// maxTokensPerEvent is the most that Options.TokensPerEvent can be: all drafts accepted.
const maxTokensPerEvent = drafts + 1

// speculate puts tokens together as a server with speculative decoding does: the first one,
// which comes from the prompt, is alone; each further event has one token and those
// of the drafts that were accepted, each as likely as the others.
func (x *exchange) speculate(next sink) sink {
	accept, begun := (x.s.o.TokensPerEvent-1)/drafts, false
	return grouped(next, func() int {
		if !begun {
			begun = true
			return 1
		}
		x.s.mu.Lock()
		defer x.s.mu.Unlock()
		n := 1
		for range drafts {
			if x.s.rng.Float64() < accept {
				n++
			}
		}
		return n
	})
}

// grouped sends the tokens of as many events as size returns in one event; those of a
// channel are not put together with those of another.
func grouped(next sink, size func() int) sink {
	var held event
	want := size()
	return func(e *event) error {
		if e.tokens == 0 {
			return next(e)
		}
		if held.tokens > 0 && held.kind != e.kind { // the answer starts
			if err := next(&held); err != nil {
				return err
			}
			held, want = event{text: held.text[:0]}, size()
		}
		text, tokens := append(held.text, e.text...), held.tokens+e.tokens
		held = *e
		held.text, held.tokens = text, tokens
		if e.usage != nil {
			u := *e.usage
			held.usage = &u
		}
		if held.tokens < want && e.finish == "" {
			return nil
		}
		err := next(&held)
		held, want = event{text: held.text[:0]}, size()
		return err
	}
}

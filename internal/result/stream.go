package result

import "time"

const (
	// mostTokens bounds the tokens of a stream that are believed: beyond it the arithmetic on deadlines would overflow.
	mostTokens = 1 << 20
	// lateRead is the read lag past which events of one read are no evidence of when they came.
	lateRead = time.Millisecond
	// mergedPart is the largest part of the events, one in so many, that may be merged in
	// a stream whose events count as the server's.
	mergedPart = 10
)

// TokenSpan is a part of the stream whose tokens are known.
type TokenSpan struct {
	// First and Last are the indexes in Events of its first and last event.
	First, Last int
	// Tokens is how many tokens came in it; 0 is no such part.
	Tokens int
	// FirstTokens is how many of them came with the first event, at least 1: by the server's running count, else, where
	// events carry several tokens, by the event's share of the text.
	FirstTokens int
}

// known reports whether the tokens of the span can be counted.
func (s TokenSpan) known() bool { return s.Tokens > 0 && s.Tokens <= mostTokens && s.FirstTokens > 0 }

// TooShortForTPOT reports whether an answer has so few tokens that its TPOT is the gap
// between two of them. No objective of the TPOT judges such an answer.
func (r *Result) TooShortForTPOT() bool { return r.Tokens.Output == 1 || r.Tokens.Output == 2 }

// Deadlines are those of the tokens of a stream.
type Deadlines struct {
	// Total is how many there were: one for each token, and one more for each TPOT that a
	// late token was overdue. Missed is how many of them were missed.
	Total, Missed int
}

// Fluidity returns the share of the deadlines that were met: the fluidity-index of Etalon (arXiv 2407.07000).
func (d Deadlines) Fluidity() float64 { return float64(d.Total-d.Missed) / float64(d.Total) }

// Plus returns the deadlines of both.
func (d Deadlines) Plus(o Deadlines) Deadlines {
	return Deadlines{d.Total + o.Total, d.Missed + o.Missed}
}

// Deadlines holds the tokens against their deadlines: the first is due ttft after the request was sent, each further
// one tpot after the deadline of the one before, so that what comes early is slack for what follows. A late token
// misses one deadline, and one more for each tpot that it is overdue; those of the tokens after it count from its
// arrival. Tokens whose event is not known are spread evenly over the events after the first one. Both times must be
// positive.
//
// It is not ok where it is not known which tokens came when: of streams that were buffered, whose reasoning left no
// events, or of which the prober was late to read a token that seems to be late.
func (r *Result) Deadlines(ttft, tpot time.Duration) (d Deadlines, ok bool) {
	s := r.Decoded
	if !s.known() || s.First > 0 || s.Last != len(r.Events)-1 || r.Timing.TTFT < 0 {
		return Deadlines{}, false
	}
	sent, due, seen := r.Events[0].At-r.Timing.TTFT, ttft, 0
	tokensBefore := r.tokensBefore()
	for i := range r.Events {
		n := tokensBefore(i+1) - seen
		if n <= 0 {
			continue
		}
		seen += n
		at := r.Events[i].At - sent
		d.Total += n
		if late := at - due; late > 0 {
			if r.Events[i].readLate() {
				return Deadlines{}, false
			}
			overdue := int(late / tpot)
			d.Total += overdue
			d.Missed += overdue + 1
			due = at
		}
		due += time.Duration(n) * tpot
	}
	return d, d.Total > 0
}

// tokensBefore returns how many tokens of a stream that is known as a whole came in its first n events.
func (r *Result) tokensBefore() func(n int) int {
	running := make([]int, len(r.Events)+1)
	for i := range r.Events {
		running[i+1] = running[i] + max(0, r.Events[i].Tokens)
	}
	events, tokens, first := len(r.Events), r.Decoded.Tokens, r.Decoded.FirstTokens
	if running[events] == tokens {
		return func(n int) int { return running[n] }
	}
	return func(n int) int {
		switch n {
		case 0:
			return 0
		case events:
			return tokens
		}
		return first + (tokens-first)*(n-1)/(events-1)
	}
}

// readLate reports whether the prober, and not the server, may be what put the event
// together with later ones, so that it may have come earlier.
func (e *Event) readLate() bool { return e.Merged && (e.ReadLag < 0 || e.ReadLag > lateRead) }

// EventTokens returns how many tokens came after the first event, by the server's count, and in how many events: with
// speculative decoding, tokens/events is how many tokens a step of the model brings. Both are 0 where that is not
// known: of streams that were buffered, without the server's count, with reasoning that left no events and nothing
// after it, or with many merged events.
func (r *Result) EventTokens() (tokens, events int) {
	s := r.Decoded
	if !s.known() || s.Last >= len(r.Events) || r.Tokens.Source != TokensFromUsage || r.MoreEvents {
		return 0, 0
	}
	merged := 0
	for i := s.First; i <= s.Last; i++ {
		if r.Events[i].Merged {
			merged++
		}
	}
	events = s.Last - s.First
	tokens = s.Tokens - s.FirstTokens
	if events <= 0 || tokens <= 0 || merged*mergedPart > events {
		return 0, 0
	}
	return tokens, events
}

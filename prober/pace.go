package prober

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

const (
	// bufferedPerToken is the pace past which several tokens were held back and sent in one burst: no model
	// writes 10,000 tokens/s in one stream.
	bufferedPerToken = 100 * time.Microsecond
	// bufferedMinTokens is how many tokens a burst needs to be called buffered; a
	// shorter answer may well fit one step of speculative decoding.
	bufferedMinTokens = 8
	// sameMoment is how close together events are that may be pieces of one token,
	// which a server writes one right after the other.
	sameMoment = time.Millisecond
	// unseenTokens and a tenth of the tokens may leave no event in reasoning that is streamed as it is: tags
	// around it, ends of text, characters of several tokens.
	unseenTokens = 4
)

func (t *timeline) all(tokens int) result.TokenSpan {
	return result.TokenSpan{Last: len(t.events) - 1, Tokens: tokens}
}

func (t *timeline) took(c result.Clock, s result.TokenSpan) time.Duration {
	return t.events[s.Last].on(c) - t.events[s.First].on(c)
}

// burst reports whether the tokens of a stretch came faster than any model is.
func (t *timeline) burst(c result.Clock, s result.TokenSpan) bool {
	return s.Tokens >= bufferedMinTokens && t.took(c, s) < time.Duration(s.Tokens)*bufferedPerToken
}

// firstTokens returns how many tokens of a stretch came with its first event. Without a running count that is its share
// of the text where events have one and a half tokens or more: it is as often too many as too few. Where most have one,
// so does the first, and its word may be a long one.
func (t *timeline) firstTokens(s result.TokenSpan) int {
	events := t.events[s.First : s.Last+1]
	if n := events[0].tokens; n > 0 {
		return n
	}
	size := sizeOf(events)
	if size == 0 || 2*s.Tokens < 3*len(events) {
		return 1
	}
	return max(1, int(math.Round(float64(s.Tokens)*float64(events[0].size)/float64(size))))
}

func sizeOf(events []rawEvent) (characters int) {
	for i := range events {
		characters += events[i].size
	}
	return characters
}

// per returns the time of a stretch for each of what came after its first event, or Absent: that came at once.
func (t *timeline) per(c result.Clock, s result.TokenSpan, rest int) time.Duration {
	took := t.took(c, s)
	if rest <= 0 || took <= 0 {
		return result.Absent
	}
	return took / time.Duration(rest)
}

// decoded returns the stretch of the stream whose tokens are known: those that a model decoded before its first event,
// or beside a summary of them, would make it look too fast. That is the whole stream where all tokens left events, the
// answer where the reasoning did not, and nothing where it is not known what did.
func (t *timeline) decoded(n result.Tokens) (s result.TokenSpan, ok bool) {
	reasons := t.reasons()
	switch {
	case n.Output <= 0:
		return result.TokenSpan{}, false
	case n.Reasoning <= 0 && !reasons, reasons && t.streamed(n), n.Source == result.TokensFromEvents:
		return t.all(n.Output), true
	case n.Reasoning <= 0:
		return result.TokenSpan{}, false
	}
	s, ok = t.answer()
	s.Tokens = n.Output - n.Reasoning
	return s, ok && s.Tokens > 0
}

func (t *timeline) reasons() bool {
	return slices.ContainsFunc(t.events, func(e rawEvent) bool { return e.reasoning || e.summary })
}

// streamed reports whether the reasoning was streamed as it is: its tokens, or all where the server does not count them
// apart, left as many events, or the running count of the events is that of the whole reply.
func (t *timeline) streamed(n result.Tokens) bool {
	events, running := 0, 0
	for i := range t.events {
		e := &t.events[i]
		if e.summary {
			return false
		}
		running += e.tokens
		if e.reasoning || n.Reasoning < 0 {
			events++
		}
	}
	want, unseen := n.Reasoning, unseenTokens
	switch {
	case n.Reasoning < 0:
		want = n.Output
	case n.Reasoning < n.Output: // there is an answer to go by
		unseen = 1
	}
	return running == n.Output || events >= want-want/10-unseen
}

// answer returns the part of the stream after the reasoning; not ok where reasoning lies in between.
func (t *timeline) answer() (s result.TokenSpan, ok bool) {
	s.First = -1
	for i := range t.events {
		switch {
		case t.events[i].reasoning:
			continue
		case s.First < 0:
			s.First = i
		case s.Last != i-1:
			return result.TokenSpan{}, false
		}
		s.Last = i
	}
	return s, s.First >= 0
}

// doubtful reports whether it is not known which event brought the first token: there were more of them than tokens, so
// that at least as many of the first may be none, and it matters by more than a moment.
func (t *timeline) doubtful(c result.Clock, n result.Tokens) bool {
	left := n.Output
	for i := len(t.events) - 1; i > 0; i-- {
		if t.events[i].summary {
			continue
		}
		if left--; left == 0 {
			return t.events[i].on(c)-t.events[0].on(c) >= sameMoment && !t.isEven(c, i)
		}
	}
	return false
}

// isEven reports whether the events up to the i-th came no slower than twice the time of those after it, as tokens in
// pieces do. A gateway's texts, which are where reasoning begins a reply, have a pause before the answer.
func (t *timeline) isEven(c result.Clock, i int) bool {
	last := len(t.events) - 1
	before := t.took(c, result.TokenSpan{Last: i})
	after := t.took(c, result.TokenSpan{First: i, Last: last})
	return i < last && !t.events[0].reasoning && before*time.Duration(last-i) <= 2*after*time.Duration(i)
}

// moreEvents reports whether there were more token events than tokens, so that some were none, such as a
// gateway's texts while a model is loaded. Summaries do not count: their text is in no count. An event of
// another channel, or of a tool, may be a piece of the token before at the same moment. Some servers leave a
// token out of their count, and a gateway's own tokenizer may be a fifth wrong; but in a stream that begins
// with reasoning, where such texts are, no more events are accepted than tokens.
func (t *timeline) moreEvents(c result.Clock, n result.Tokens) bool {
	if n.Source != result.TokensFromUsage || n.Output <= 0 || len(t.events) == 0 {
		return false
	}
	events := 0
	for i := range t.events {
		e := &t.events[i]
		if e.summary || i > 0 && t.sameToken(c, &t.events[i-1], e) {
			continue
		}
		events++
	}
	most := n.Output
	if first := &t.events[0]; !first.reasoning || first.summary {
		most += most/5 + 1
	}
	return events > most
}

// sameToken reports whether an event may be a piece of the token of the one before it.
func (t *timeline) sameToken(c result.Clock, before, e *rawEvent) bool {
	return (e.tool || e.visible != before.visible) && e.on(c)-before.on(c) < sameMoment
}

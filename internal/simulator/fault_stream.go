package simulator

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"
)

// usageFaults report the token counts wrongly.
func usageFaults() []Fault {
	// every sets the usage beside each token.
	every := func(count func(x *exchange, tokens int) usage) func(*exchange, sink) sink {
		return func(x *exchange, next sink) sink {
			tokens := 0
			return func(e *event) error {
				if tokens += e.tokens; e.tokens > 0 {
					u := count(x, tokens)
					e.usage = &u
				}
				return next(e)
			}
		}
	}
	final := func(wrong usage) func(*exchange, sink) sink {
		return shapeOf(func(_ *exchange, e *event, next sink) error {
			if e.kind == Usage {
				e.usage = &wrong
			}
			return next(e)
		})
	}
	return []Fault{
		{Name: "negative_usage", Description: "Reports negative token counts.", shape: final(usage{Prompt: -5, Output: -1, Cached: -1, Reasoning: -1})},
		{Name: "absurd_usage", Description: "Reports a billion of billions of tokens, more cached than in the prompt.", shape: final(usage{Prompt: 3, Output: 1e18, Cached: 1e12, Reasoning: -1})},
		{Name: "no_usage", Description: "Reports no usage although asked.", shape: shapeOf(func(_ *exchange, e *event, next sink) error {
			if e.kind == Usage {
				return nil
			}
			return next(e)
		})},
		{Name: "usage_every_chunk", Description: "Reports running totals with each token although not asked.", shape: every(func(x *exchange, tokens int) usage {
			return usage{Prompt: len(x.request.prompt), Output: tokens, Cached: -1, Reasoning: -1}
		})},
		{Name: "zero_usage_every_chunk", Description: "Reports zeros with each token, the truth at the end.", shape: every(func(*exchange, int) usage {
			return usage{Cached: -1, Reasoning: -1}
		})},
		{Name: "usage_on_finish", Description: "Reports the usage on the chunk with the finish reason.", shape: shapeOf(func(x *exchange, e *event, next sink) error {
			switch {
			case e.kind == Usage:
				return nil
			case e.finish != "":
				p := x.seq.progress()
				u := x.usage(p, p.tokens)
				e.usage = &u
			}
			return next(e)
		})},
	}
}

// tokenFaults change what the events carry.
func tokenFaults() []Fault {
	return []Fault{
		{Name: "empty_string_tokens", Description: "Sends every other token as an empty string.", shape: emptyTokens},
		{Name: "many_tokens_per_event", Description: "Sends four tokens in one event, as speculative decoding does.", shape: func(_ *exchange, next sink) sink {
			return grouped(next, func() int { return 4 })
		}},
		{Name: "empty_stream", Description: "Streams role, finish reason and zero usage, and no token.", shape: shapeOf(func(_ *exchange, e *event, next sink) error {
			switch {
			case e.kind == Usage:
				e.usage.Output = 0
			case e.finish != "":
				return next(&event{kind: Finish, finish: finishStop})
			case e.tokens > 0:
				return nil
			}
			return next(e)
		})},
		{Name: "no_finish_reason", Description: "Sends the end marker but never a finish reason.", shape: shapeOf(func(_ *exchange, e *event, next sink) error {
			e.finish = ""
			return next(e)
		})},
		{Name: "two_finish_reasons", Description: "Sends a second finish reason, another one, after the first.", shape: shapeOf(func(_ *exchange, e *event, next sink) error {
			finished := e.finish != ""
			if err := next(e); err != nil || !finished {
				return err
			}
			return next(&event{kind: Finish, finish: finishStop})
		})},
		{Name: "endless_tokens", Description: "Never stops: a token every decode step, beyond any limit.", shape: endless},
		{Name: "early_role", Description: "Sends the role 1 s before the first token can come.", shape: shapeOf(func(x *exchange, e *event, next sink) error {
			switch e.kind {
			case Role:
				return nil // it came already
			case open:
				if err := emit(next, *e, event{kind: Role}); err != nil {
					return err
				}
				return sleep(x.ctx(), time.Second)
			}
			return next(e)
		})},
	}
}

func emptyTokens(_ *exchange, next sink) sink {
	tokens := 0
	return func(e *event) error {
		if tokens += e.tokens; e.tokens > 0 && tokens%2 == 0 {
			odd := *e
			odd.text = nil
			return next(&odd)
		}
		return next(e)
	}
}

func endless(x *exchange, next sink) sink {
	return func(e *event) error {
		if e.finish == "" {
			return next(e)
		}
		e.finish = ""
		for {
			if err := next(e); err != nil {
				return err
			}
			if err := sleep(x.ctx(), x.s.o.DecodeStep); err != nil {
				return err
			}
		}
	}
}

// endFaults end the stream otherwise than they should.
func endFaults() []Fault {
	failure := event{kind: Failure, text: []byte("EngineCore encountered an issue")}
	// fail reports an error inside the stream and ends it as vLLM does.
	fail := func(_ *exchange, next sink) error {
		return cmp.Or(emit(next, failure, event{kind: Done}), errOver)
	}
	atDone := func(act func(x *exchange) error) func(*exchange, sink) sink {
		return shapeOf(func(x *exchange, e *event, next sink) error {
			if e.kind == Done {
				return act(x)
			}
			return next(e)
		})
	}
	return []Fault{
		{Name: "no_end_marker", Description: "Ends the body after the finish reason, without [DONE].", shape: atDone(func(*exchange) error { return nil })},
		{Name: "open_after_finish", Description: "Sends no [DONE] and leaves the connection open.", shape: atDone((*exchange).hang)},
		{Name: "cut_before_finish", Description: "Closes the connection inside the body, after two tokens.", shape: atOddToken(func(*exchange, sink) error { return errCut })},
		{Name: "end_before_finish", Description: "Ends the body cleanly after two tokens.", shape: atOddToken(func(*exchange, sink) error { return errOver })},
		{Name: "reset_midstream", Description: "Resets the connection (RST) after two tokens.", shape: atOddToken(func(x *exchange, _ sink) error { return x.reset() })},
		{Name: "truncated_json", Description: "Ends the body in the middle of an event's JSON, after two tokens.", shape: atOddToken(func(_ *exchange, next sink) error {
			return cmp.Or(next(&event{kind: Odd, verbatim: `data: {"id":"x","choices":[{"index":0,"delta":{"cont`}), errOver)
		})},
		{Name: "error_event_first", Description: "Sends an error as the first event, then [DONE], all with status 200.", shape: shapeOf(func(x *exchange, e *event, next sink) error {
			if e.kind == open {
				return next(e)
			}
			return fail(x, next)
		})},
		{Name: "error_event_midstream", Description: "Sends an error event after two tokens, then [DONE].", shape: atOddToken(fail)},
		{Name: "error_line", Description: "Sends a line `error: {...}` after two tokens, then ends the body.", shape: atOddToken(func(_ *exchange, next sink) error {
			return cmp.Or(next(&event{kind: Failure, verbatim: `error: {"code":500,"message":"context shift is disabled","type":"server_error"}` + "\n\n"}), errOver)
		})},
	}
}

// silenceFaults stop sending, or pause, and keep the connection.
func silenceFaults() []Fault {
	return []Fault{
		{Name: "stall_before_first_token", Description: "Sends the headers and then nothing, for ever.", shape: shapeOf(func(x *exchange, e *event, next sink) error {
			if err := next(e); err != nil {
				return err
			}
			return x.hang()
		})},
		{Name: "slow_tokens", Description: "Sends a token only every 2 s.", shape: shapeOf(func(x *exchange, e *event, next sink) error {
			if e.tokens > 0 {
				if err := sleep(x.ctx(), 2*time.Second); err != nil {
					return err
				}
			}
			return next(e)
		})},
		{Name: "pause_midstream", Description: "Goes silent for 1.5 s after two tokens, and then sends what came meanwhile.", shape: pauseMidstream},
		{Name: "stall_midstream", Description: "Goes silent after two tokens, for ever.", shape: atOddToken(func(x *exchange, _ sink) error { return x.hang() })},
	}
}

func pauseMidstream(x *exchange, next sink) sink {
	tokens := 0
	return func(e *event) error {
		if tokens += e.tokens; e.tokens > 0 && tokens == 3 {
			if err := sleep(x.ctx(), 1500*time.Millisecond); err != nil {
				return err
			}
		}
		return next(e)
	}
}

// frameFaults frame the events unusually.
func frameFaults() []Fault {
	return []Fault{
		{Name: "crlf", Description: "Ends lines with CRLF.", frame: sseFrame("data: ", "\r\n")},
		{Name: "cr", Description: "Ends lines with CR alone.", frame: sseFrame("data: ", "\r")},
		{Name: "done_without_space", Description: "Writes no space after `data:`, not even before [DONE].", frame: sseFrame("data:", "\n")},
		{Name: "multiline_data", Description: "Spreads the JSON of an event over two data lines.", frame: multilineFrame},
		{Name: "extra_fields", Description: "Adds event, id and retry lines, and lines and JSON members that nobody knows.", frame: extraFrame},
		{Name: "bom", Description: "Starts the stream with a byte order mark.", shape: func(_ *exchange, next sink) sink {
			return before(open, "\ufeff", Odd, next)
		}},
		{Name: "event_without_blank_line_at_eof", Description: "Ends the stream after the line of the last JSON event: no blank line, no [DONE].", shape: func(x *exchange, next sink) sink {
			return func(e *event) error {
				last := e.kind == Usage || (e.finish != "" && !x.request.usage)
				switch {
				case e.kind == Done:
					return nil
				case last:
					if x.isSSE() {
						x.frame = unendedFrame
					}
				}
				return next(e)
			}
		}},
	}
}

// unendedFrame leaves out the blank line that ends an event.
func unendedFrame(dst []byte, name string, payload []byte) []byte {
	dst = append(appendName(dst, name, "\n"), "data: "...)
	return append(append(dst, payload...), '\n')
}

// multilineFrame splits a payload after its first comma, which is outside of
// any string.
func multilineFrame(dst []byte, name string, payload []byte) []byte {
	head, tail, ok := bytes.Cut(payload, []byte(","))
	dst = appendName(dst, name, "\n")
	dst = append(append(dst, "data: "...), head...)
	if ok {
		dst = append(append(dst, ",\ndata: "...), tail...)
	}
	return append(dst, "\n\n"...)
}

// extraFrame surrounds a payload with other fields, and puts a member first into
// its JSON.
func extraFrame(dst []byte, name string, payload []byte) []byte {
	dst = append(appendName(dst, cmp.Or(name, "message"), "\n"), "id: 7\nretry: 1000\nx-odd: 1\ndata: "...)
	if members, ok := bytes.CutPrefix(payload, []byte("{")); ok {
		dst = append(append(dst, `{"x_odd":{"choices":[1,"}"]},`...), members...)
	} else {
		dst = append(dst, payload...)
	}
	return append(dst, "\n\n"...)
}

// before writes verbatim bytes of the given kind in front of each event of kind
// at; for open, behind it.
func before(at Kind, verbatim string, kind Kind, next sink) sink {
	return func(e *event) error {
		if e.kind != at {
			return next(e)
		}
		odd := event{kind: kind, verbatim: verbatim}
		if at == open {
			return emit(next, *e, odd)
		}
		return emit(next, odd, *e)
	}
}

// lineFaults write lines that are not events of the protocol.
func lineFaults() []Fault {
	beforeAll := func(odd ...event) func(*exchange, sink) sink {
		return shapeOf(func(_ *exchange, e *event, next sink) error {
			if e.kind == open || e.kind == end {
				return next(e)
			}
			return emit(next, append(slices.Clone(odd), *e)...)
		})
	}
	return []Fault{
		{Name: "comments_between", Description: "Writes a comment before each event.", shape: beforeAll(event{kind: Comment, verbatim: ": keep-alive\n\n"})},
		{Name: "comment_before_done", Description: "Writes a comment right before the end marker, without a blank line.", shape: func(_ *exchange, next sink) sink {
			return before(Done, ": OPENROUTER PROCESSING\n", Comment, next)
		}},
		{Name: "keepalive_data", Description: "Writes keep-alives as data (`data: : keepalive`).", shape: beforeAll(event{kind: Comment, payload: ": keepalive"})},
		{Name: "empty_events", Description: "Writes events with no data, and none at all, before each event.", shape: beforeAll(event{kind: Odd, verbatim: "data:\n\n"}, event{kind: Odd, verbatim: "\n\n"})},
		{Name: "nulls", Description: "Writes events with null, empty or missing members before each event.", shape: beforeAll(nullEvents()...)},
		{Name: "garbage_bytes", Description: "Writes bytes that are no text between two tokens.", shape: oddLine(Odd, "\x00\xff\xfe\x80garbage\x1b[0m\xc3\n\n")},
		{Name: "malformed_json", Description: "Writes an event with broken JSON between two tokens.", shape: oddLine(Odd, "data: {\"id\":\"x\",\"choices\":[{\"index\":0,,}\n\n")},
		{Name: "long_line", Description: "Writes one line of 100 MB.", shape: atOddToken(longLine)},
		{Name: "comment_only", Description: "Writes a comment every 100 ms for ever, and no token.", shape: shapeOf(func(x *exchange, e *event, next sink) error {
			for err := next(e); ; err = next(&event{kind: Comment, verbatim: ": keep-alive\n\n"}) {
				if err != nil {
					return err
				}
				if err := sleep(x.ctx(), 100*time.Millisecond); err != nil {
					return err
				}
			}
		})},
	}
}

func oddLine(kind Kind, verbatim string) func(*exchange, sink) sink {
	return atOddToken(func(_ *exchange, next sink) error {
		return next(&event{kind: kind, verbatim: verbatim})
	})
}

func nullEvents() []event {
	var events []event
	for _, payload := range []string{
		`{}`,
		`{"id":null,"object":null,"created":null,"model":null,"choices":null,"usage":null}`,
		`{"choices":[],"usage":null}`,
		`{"choices":[{"index":0,"delta":null,"text":null,"logprobs":null,"finish_reason":null}]}`,
		`{"choices":[{"index":0}]}`,
		`{"choices":[{"index":0,"delta":{"role":null,"content":null,"reasoning":null,"tool_calls":null,"refusal":null},"finish_reason":null}]}`,
	} {
		events = append(events, event{kind: Odd, payload: payload})
	}
	return events
}

// longLine writes a data line of 100 MB in pieces of 64 kB.
func longLine(_ *exchange, next sink) error {
	piece := strings.Repeat("a", 64<<10)
	if err := next(&event{kind: Odd, verbatim: `data: {"choices":[{"index":0,"delta":{"content":"`}); err != nil {
		return err
	}
	for range 100e6 / len(piece) {
		if err := next(&event{kind: Odd, verbatim: piece}); err != nil {
			return err
		}
	}
	return next(&event{kind: Odd, verbatim: "\"}}]}\n\n"})
}

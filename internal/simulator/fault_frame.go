package simulator

import (
	"bytes"
	"cmp"
	"strings"
	"time"
)

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
				last := e.kind == Usage || (e.finish != "" && !x.ask.usage)
				switch {
				case e.kind == Done:
					return nil
				case last:
					if x.p.contentType == "" {
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
			if err := next(e); err != nil {
				return err
			}
			return next(&odd)
		}
		if err := next(&odd); err != nil {
			return err
		}
		return next(e)
	}
}

// lineFaults write lines that are not events of the protocol.
func lineFaults() []Fault {
	beforeAll := func(odd ...event) func(*exchange, sink) sink {
		return shapeOf(func(_ *exchange, e *event, next sink) error {
			if e.kind != open && e.kind != end {
				for _, o := range odd {
					if err := next(&o); err != nil {
						return err
					}
				}
			}
			return next(e)
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

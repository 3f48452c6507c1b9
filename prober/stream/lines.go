package stream

import (
	"bytes"
	"fmt"
	"io"
)

// SSEReader reads server-sent events as the WHATWG specification frames them
// (https://html.spec.whatwg.org/multipage/server-sent-events.html, 9.2.6),
// with three liberties that real servers ask for: Frame.Partial, the field
// "error", and data that begins with a colon, which is a comment that some
// gateways wrap in a data field. It is not safe for concurrent use.
type SSEReader struct {
	lines   lines
	event   string // name of the last named event, kept to save an allocation
	named   bool   // the event in progress has the name event
	data    []byte // payload of the event in progress
	hasData bool   // the event in progress has a data line
	frames  int
	err     error
}

// NewSSE returns a reader of the events in r.
func NewSSE(r io.Reader, l Limits) *SSEReader {
	s := new(SSEReader)
	s.Reset(r, l)
	return s
}

// Reset makes s read the events in r and keeps its buffers, unless an unusual
// reply made them large.
func (s *SSEReader) Reset(r io.Reader, l Limits) {
	s.lines.reset(r, l)
	data := s.data[:0]
	if cap(data) > keptBuffer {
		data = nil
	}
	*s = SSEReader{lines: s.lines, data: data}
}

// Next returns the next event that has data. It calls Read only when no
// complete event is buffered, so a frame was completed by the latest Read. The
// error is io.EOF at the end of the input, ErrTooLarge past a limit, or what
// Read returned; every later call returns it again.
func (s *SSEReader) Next() (Frame, error) {
	if s.err != nil {
		return Frame{}, s.err
	}
	s.clear()
	for {
		line, err := s.lines.next()
		if err == io.EOF && len(line) > 0 {
			s.err = s.field(line)
		}
		if err != nil {
			return s.finish(err)
		}
		if len(line) > 0 {
			if s.err = s.field(line); s.err != nil {
				return Frame{}, s.err
			}
			continue
		}
		if len(s.data) > 0 {
			return s.dispatch(false)
		}
		s.clear()
	}
}

// Frames counts the frames so far.
func (s *SSEReader) Frames() int { return s.frames }

// Head returns what the first 2 KiB of the body hold from the first line on that
// is none of an event stream, such as an HTML page or bare JSON. Comments and
// events without data, which keep a connection open, are none of that: a stream of
// nothing else has no head.
func (s *SSEReader) Head() []byte {
	head := bytes.TrimPrefix(s.lines.head, []byte(byteOrderMark))
	for len(head) > 0 {
		line, rest := head, []byte(nil)
		if end := bytes.IndexAny(head, "\r\n"); end >= 0 {
			line, rest = head[:end], head[end+1:]
		}
		name, _, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "", "data", "event", "id", "retry":
			head = rest
		default:
			return head
		}
	}
	return nil
}

// finish ends the stream by err, after the event that the input ended in.
func (s *SSEReader) finish(err error) (Frame, error) {
	if s.err != nil {
		return Frame{}, s.err
	}
	s.err = err
	if err == io.EOF && len(s.data) > 0 {
		return s.dispatch(true)
	}
	return Frame{}, s.err
}

// dispatch returns the event in progress.
func (s *SSEReader) dispatch(partial bool) (Frame, error) {
	if s.frames >= s.lines.limits.Events {
		s.err = fmt.Errorf("%w: over %d events", ErrTooLarge, s.lines.limits.Events)
		return Frame{}, s.err
	}
	s.frames++
	s.lines.framed = true
	f := Frame{Data: s.data, Read: s.lines.brought, More: s.lines.more(), Partial: partial}
	if s.named {
		f.Event = s.event
	}
	return f, nil
}

// clear forgets the event in progress.
func (s *SSEReader) clear() {
	s.named, s.hasData, s.data = false, false, s.data[:0]
}

// field takes one line that is not empty.
func (s *SSEReader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if len(value) > 0 && value[0] == ':' {
			return nil
		}
		return s.append(value)
	case "event":
		s.name(value)
	case "error":
		s.name([]byte("error"))
		return s.append(value)
	}
	return nil
}

// name sets the name of the event in progress; an empty one is none.
func (s *SSEReader) name(value []byte) {
	s.named = len(value) > 0
	if s.named && s.event != string(value) {
		s.event = string(value)
	}
}

// append adds a line of data to the event in progress.
func (s *SSEReader) append(value []byte) error {
	if s.hasData {
		s.data = append(s.data, '\n')
	}
	s.hasData = true
	if len(s.data)+len(value) > s.lines.limits.Event {
		return fmt.Errorf("%w: event over %d bytes", ErrTooLarge, s.lines.limits.Event)
	}
	if need := len(s.data) + len(value); need > cap(s.data) {
		// Append makes room for more than is needed.
		if err := s.lines.ask(len(s.lines.buf) + 2*need); err != nil {
			return err
		}
		s.lines.beside = 2 * need
	}
	s.data = append(s.data, value...)
	return nil
}

// NDJSONReader reads a body of one JSON value a line
// (https://github.com/ndjson/ndjson-spec). What a line holds is left to the
// caller. A line of white space is none, which the specification allows and
// servers use to keep a connection alive. It is not safe for concurrent use.
type NDJSONReader struct {
	lines  lines
	frames int
	err    error
}

// NewNDJSON returns a reader of the lines in r.
func NewNDJSON(r io.Reader, l Limits) *NDJSONReader {
	n := new(NDJSONReader)
	n.lines.reset(r, l)
	return n
}

// Next implements Reader. A last line without its end is a frame whose
// Partial is set.
func (n *NDJSONReader) Next() (Frame, error) {
	for n.err == nil {
		var line []byte
		line, n.err = n.lines.next()
		if n.err != nil && n.err != io.EOF {
			break
		}
		if line = bytes.Trim(line, " \t"); len(line) > 0 {
			return n.dispatch(line)
		}
	}
	return Frame{}, n.err
}

// dispatch returns a line as a frame.
func (n *NDJSONReader) dispatch(line []byte) (Frame, error) {
	limits := n.lines.limits
	switch {
	case len(line) > limits.Event:
		n.err = fmt.Errorf("%w: event over %d bytes", ErrTooLarge, limits.Event)
		return Frame{}, n.err
	case n.frames >= limits.Events:
		n.err = fmt.Errorf("%w: over %d events", ErrTooLarge, limits.Events)
		return Frame{}, n.err
	}
	n.frames++
	n.lines.framed = true
	return Frame{Data: line, Read: n.lines.brought, More: n.lines.more(), Partial: n.err != nil}, nil
}

// Frames implements Reader.
func (n *NDJSONReader) Frames() int { return n.frames }

// Head implements Reader.
func (n *NDJSONReader) Head() []byte { return n.lines.head }

// WholeReader takes a body as one frame, for replies that are not streamed. It
// is not safe for concurrent use.
type WholeReader struct {
	buffer buffer
	frames int
}

// NewWhole returns a reader of the one frame in r. Of the limits only the one
// on the body holds.
func NewWhole(r io.Reader, l Limits) *WholeReader {
	w := new(WholeReader)
	w.buffer.reset(r, l, int(l.Body)+1)
	return w
}

// Next implements Reader. A body of white space has no frame.
func (w *WholeReader) Next() (Frame, error) {
	b := &w.buffer
	for b.err == nil {
		b.fill()
	}
	body := bytes.TrimSpace(b.unread())
	b.start = b.end
	if b.err != io.EOF || len(body) == 0 {
		return Frame{}, b.err
	}
	w.frames++
	return Frame{Data: body, Read: b.brought}, nil
}

// Frames implements Reader.
func (w *WholeReader) Frames() int { return w.frames }

// Head implements Reader.
func (w *WholeReader) Head() []byte { return w.buffer.head }

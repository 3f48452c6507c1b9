package stream

import (
	"bytes"
	"io"
)

// sseReader reads server-sent events as the WHATWG specification frames them
// (https://html.spec.whatwg.org/multipage/server-sent-events.html, 9.2.6), with three liberties that real servers ask
// for: Frame.Partial, the field "error", and data that begins with a colon, which is a comment that some gateways wrap
// in a data field.
type sseReader struct {
	lines
	event   []byte // name of the event in progress
	data    []byte // payload of the event in progress
	hasData bool   // the event in progress has a data line
}

// Next returns the next event that has data.
func (s *sseReader) Next() (Frame, error) {
	if s.failed != nil {
		return Frame{}, s.failed
	}
	s.clear()
	for {
		line, err := s.next()
		if len(line) > 0 && (err == nil || err == io.EOF) {
			if refused := s.field(line); refused != nil {
				return s.fail(refused)
			}
			if err == nil {
				continue
			}
		}
		switch {
		case err == io.EOF && len(s.data) > 0:
			s.failed = err
			return s.dispatch(true)
		case err != nil:
			return s.fail(err)
		case len(s.data) > 0:
			return s.dispatch(false)
		default:
			s.clear()
		}
	}
}

// Head returns what the first 2 KiB of the body hold from the first line on that is none of an event stream, such as an
// HTML page or bare JSON. Comments and events without data, which keep a connection open, are none of that: a stream of
// nothing else has no head.
func (s *sseReader) Head() []byte {
	head := bytes.TrimPrefix(s.head, []byte(byteOrderMark))
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

func (s *sseReader) dispatch(partial bool) (Frame, error) {
	f, err := s.frame(s.event, s.data, s.more())
	f.Partial = partial
	return f, err
}

func (s *sseReader) clear() {
	s.event, s.hasData, s.data = s.event[:0], false, s.data[:0]
}

// field takes one line that is not empty.
func (s *sseReader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if len(value) > 0 && value[0] == ':' {
			return nil
		}
		return s.append(value)
	case "event":
		s.event = append(s.event[:0], value...)
	case "error":
		s.event = append(s.event[:0], name...)
		return s.append(value)
	}
	return nil
}

func (s *sseReader) append(value []byte) error {
	if s.hasData {
		s.data = append(s.data, '\n')
	}
	s.hasData = true
	need := len(s.data) + len(value)
	if need > s.limits.Event {
		return s.tooLong()
	}
	if need > cap(s.data) {
		// Append makes room for more than is needed.
		if err := s.ask(len(s.buf) + 2*need); err != nil {
			return err
		}
		s.beside = 2 * need
	}
	s.data = append(s.data, value...)
	return nil
}

// ndjsonReader reads a body of one JSON value a line (https://github.com/ndjson/ndjson-spec). What a line holds is left
// to the caller. A line of white space is none, which the specification allows and servers use to keep a connection
// alive.
type ndjsonReader struct{ lines }

// Next implements Reader. A last line without its end is a frame whose Partial is set.
func (n *ndjsonReader) Next() (Frame, error) {
	for n.failed == nil {
		var line []byte
		line, n.failed = n.next()
		if n.failed != nil && n.failed != io.EOF {
			break
		}
		if line = bytes.Trim(line, " \t"); len(line) > n.limits.Event {
			return n.fail(n.tooLong())
		}
		if len(line) > 0 {
			f, err := n.frame(nil, line, n.more())
			f.Partial = err == nil && n.failed != nil
			return f, err
		}
	}
	return Frame{}, n.failed
}

// wholeReader takes a body as one frame, for replies that are not streamed.
type wholeReader struct{ buffer }

// Next implements Reader. A body of white space has no frame.
func (w *wholeReader) Next() (Frame, error) {
	for w.err == nil {
		w.fill()
	}
	body := bytes.TrimSpace(w.unread())
	w.start = w.end
	if w.err != io.EOF || len(body) == 0 {
		return Frame{}, w.err
	}
	w.frames++
	return Frame{Data: body, Read: w.brought}, nil
}

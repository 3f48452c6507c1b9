package stream

import (
	"bytes"
	"fmt"
	"io"
)

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

package stream

import (
	"bytes"
	"io"
)

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

package stream

import (
	"errors"
	"io"
)

// ErrMalformed is a reply that is not framed as it should be.
var ErrMalformed = errors.New("reply malformed")

// Framing is a way to cut a body into frames.
type Framing int

// The framings.
const (
	// SSE is server-sent events.
	SSE Framing = iota
	// NDJSON is one JSON value in each line.
	NDJSON
	// EventStream is the binary format of AWS, application/vnd.amazon.eventstream.
	EventStream
	// Whole takes the whole body as one frame.
	Whole
)

// Reader cuts a body into frames.
type Reader interface {
	// Next returns the next frame. It calls Read only when no complete frame
	// is buffered, so a frame was completed by the latest Read. The error is
	// io.EOF at the end of the input, ErrTooLarge past a limit, ErrMalformed
	// where the input is not framed so, or what Read returned; every later
	// call returns it again.
	Next() (Frame, error)
	// Frames counts the frames so far.
	Frames() int
	// Head returns the first bytes of the body, 2 KiB at most: where no frame
	// came, they tell what came instead. Keep-alives of the framing are no part of
	// it.
	Head() []byte
}

// New returns a reader of the frames in r.
func New(f Framing, r io.Reader, l Limits) Reader {
	switch f {
	case EventStream:
		return NewEventStream(r, l)
	case Whole:
		return NewWhole(r, l)
	case NDJSON:
		return NewNDJSON(r, l)
	case SSE:
	}
	return NewSSE(r, l)
}

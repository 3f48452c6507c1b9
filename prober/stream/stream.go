// Package stream cuts the body of a streaming reply into frames. It knows
// framing only, not what a frame means, and keeps no time: a frame says which
// Read call completed it, and whoever owns the io.Reader stamps its reads.
// Whatever a server sends, memory stays within Limits.
package stream

import (
	"errors"
	"io"
)

// ErrTooLarge is a reply past one of its Limits.
var ErrTooLarge = errors.New("reply too large")

// Limits bound what one reply may cost.
type Limits struct {
	// Line is the longest line in bytes, its end aside.
	Line int
	// Event is the most data of one frame in bytes.
	Event int
	// Body is the most bytes of the whole reply.
	Body int64
	// Events is the most frames of the whole reply.
	Events int
	// Reserve is asked before the buffers of the reply grow to so many bytes,
	// whenever that is more than FreeBuffer; its error ends the reply. nil
	// permits everything.
	Reserve func(bytes int) error
}

// FreeBuffer is how many bytes the buffers of a reply have without asking
// Limits.Reserve: more than the events of usual replies need.
const FreeBuffer = 2 * firstBuffer

// DefaultLimits leave room for the largest honest replies known: final objects
// that echo a prompt of 128,000 tokens have 0.6 MiB, log probabilities less.
func DefaultLimits() Limits {
	return Limits{Line: 2 << 20, Event: 2 << 20, Body: 64 << 20, Events: 200_000}
}

// ErrMalformed is a reply that is not framed as it should be.
var ErrMalformed = errors.New("reply malformed")

// Frame is one event of a stream.
type Frame struct {
	// Event is the event's name, "" by default. A line "error: ..." makes it
	// "error": no SSE field has that name, yet llama.cpp reported failures so
	// until autumn 2025.
	Event string
	// Data is the payload, valid until the next call of Next.
	Data []byte
	// Read is the ordinal, from 1, of the Read call that completed the frame.
	Read int
	// More reports that the same Read call brought more after this frame than
	// line ends, so that its time is only an upper bound on the arrival.
	More bool
	// Partial reports that the input ended before the blank line that closes an
	// event. The SSE specification discards such an event; here the caller
	// judges whether its payload is whole.
	Partial bool
}

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
	// Head returns the first bytes of a body without frames, 2 KiB at most: they
	// show what came instead. Keep-alives of the framing are no part of it.
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

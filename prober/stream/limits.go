// Package stream cuts the body of a streaming reply into frames. It knows
// framing only, not what a frame means, and keeps no time: a frame says which
// Read call completed it, and whoever owns the io.Reader stamps its reads.
// Whatever a server sends, memory stays within Limits.
package stream

import "errors"

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

package stream

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	// preludeSize is two lengths and their checksum; crcSize a checksum.
	preludeSize = 12
	crcSize     = 4
	// maxEventHeaders is the most bytes of headers that the format allows.
	maxEventHeaders = 128 << 10
)

// EventStreamReader reads messages of the format
// application/vnd.amazon.eventstream:
//
//	total length u32 | headers length u32 | CRC32 of these 8 bytes
//	headers | payload | CRC32 of all before
//
// The name of a frame is the message's :event-type; "exception:TYPE" for an
// exception and "error:CODE" for an error, whose data is its :error-message
// where it has no payload. It is not safe for concurrent use.
//
// The decoder of aws-sdk-go-v2 is not used: it reads from an io.Reader piece by
// piece, so that no read that completed a message is known, and it allocates 38
// times for each, once a token.
type EventStreamReader struct {
	buffer buffer
	limits Limits
	cut    int    // length of the message that the last frame holds
	event  string // name of the last frame, kept to save an allocation
	name   []byte // reused
	frames int
	err    error
}

// NewEventStream returns a reader of the messages in r.
func NewEventStream(r io.Reader, l Limits) *EventStreamReader {
	s := &EventStreamReader{limits: l}
	s.buffer.reset(r, l, preludeSize+maxEventHeaders+l.Event+crcSize+1)
	return s
}

// Next implements Reader. A body that ends inside a message is
// io.ErrUnexpectedEOF: what there is of it cannot be checked.
func (s *EventStreamReader) Next() (Frame, error) {
	if s.err != nil {
		return Frame{}, s.err
	}
	s.buffer.start += s.cut
	s.cut = 0
	for {
		message, err := s.message()
		if err == nil && message == nil {
			err = s.more()
		}
		if err != nil {
			s.err = err
			return Frame{}, err
		}
		if message != nil {
			return s.frame(message)
		}
	}
}

// Frames implements Reader.
func (s *EventStreamReader) Frames() int { return s.frames }

// Head implements Reader.
func (s *EventStreamReader) Head() []byte { return s.buffer.head }

// more reads on, in the middle of a message or before one.
func (s *EventStreamReader) more() error {
	b := &s.buffer
	if b.err == nil {
		b.fill()
		return nil
	}
	if b.err == io.EOF && len(b.unread()) > 0 {
		return fmt.Errorf("reply ended inside a message: %w", io.ErrUnexpectedEOF)
	}
	return b.err
}

// message returns the next message once it is complete, nil before.
func (s *EventStreamReader) message() ([]byte, error) {
	got := s.buffer.unread()
	if len(got) < preludeSize {
		return nil, nil
	}
	total, headers := binary.BigEndian.Uint32(got), binary.BigEndian.Uint32(got[4:])
	if crc32.ChecksumIEEE(got[:8]) != binary.BigEndian.Uint32(got[8:]) {
		return nil, fmt.Errorf("%w: checksum of a message's prelude", ErrMalformed)
	}
	payload := int64(total) - int64(headers) - preludeSize - crcSize
	switch {
	case payload < 0 || headers > maxEventHeaders:
		return nil, fmt.Errorf("%w: message of %d bytes with %d of headers", ErrMalformed, total, headers)
	case payload > int64(s.limits.Event):
		return nil, fmt.Errorf("%w: event over %d bytes", ErrTooLarge, s.limits.Event)
	case len(got) < int(total):
		return nil, nil
	}
	got = got[:total]
	body, sum := got[:total-crcSize], got[total-crcSize:]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(sum) {
		return nil, fmt.Errorf("%w: checksum of a message", ErrMalformed)
	}
	return got, nil
}

// frame returns a complete message as a frame. The message stays in the buffer
// until the next call, so that Data stays valid.
func (s *EventStreamReader) frame(message []byte) (Frame, error) {
	if s.frames >= s.limits.Events {
		s.err = fmt.Errorf("%w: over %d events", ErrTooLarge, s.limits.Events)
		return Frame{}, s.err
	}
	headers := preludeSize + int(binary.BigEndian.Uint32(message[4:]))
	h, err := readEventHeaders(message[preludeSize:headers])
	if err != nil {
		s.err = err
		return Frame{}, err
	}
	s.frames++
	s.buffer.framed = true
	s.cut = len(message)
	f := Frame{
		Data: message[headers : len(message)-crcSize],
		Read: s.buffer.brought,
		More: len(s.buffer.unread()) > len(message),
	}
	if len(f.Data) == 0 {
		f.Data = h.errorMessage
	}
	s.name = h.appendName(s.name[:0])
	if s.event != string(s.name) {
		s.event = string(s.name)
	}
	f.Event = s.event
	return f, nil
}

// eventHeaders are the headers of a message that identify it.
type eventHeaders struct {
	messageType, eventType, exceptionType, errorCode, errorMessage []byte
}

// appendName appends the name of the frame.
func (h *eventHeaders) appendName(dst []byte) []byte {
	switch string(h.messageType) {
	case "exception":
		return append(append(dst, "exception:"...), h.exceptionType...)
	case "error":
		return append(append(dst, "error:"...), h.errorCode...)
	}
	return append(dst, h.eventType...)
}

// readEventHeaders reads a block of headers: length u8, name, type u8, value.
func readEventHeaders(block []byte) (eventHeaders, error) {
	var h eventHeaders
	for len(block) > 0 {
		name, rest, ok := cutCounted(block, 1)
		if !ok || len(name) == 0 || len(rest) == 0 {
			return h, errEventHeaders()
		}
		value, rest, ok := cutValue(rest[0], rest[1:])
		if !ok {
			return h, errEventHeaders()
		}
		block = rest
		switch string(name) {
		case ":message-type":
			h.messageType = value
		case ":event-type":
			h.eventType = value
		case ":exception-type":
			h.exceptionType = value
		case ":error-code":
			h.errorCode = value
		case ":error-message":
			h.errorMessage = value
		}
	}
	return h, nil
}

func errEventHeaders() error { return fmt.Errorf("%w: headers of a message", ErrMalformed) }

// cutValue cuts a header's value, of which only text is returned, off block.
func cutValue(kind byte, block []byte) (text, rest []byte, ok bool) {
	// Lengths of the kinds: true, false, byte, short, integer, long, bytes,
	// text, timestamp, UUID.
	sizes := [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16}
	if int(kind) >= len(sizes) {
		return nil, nil, false
	}
	size := sizes[kind]
	if size < 0 {
		value, rest, ok := cutCounted(block, 2)
		if kind == 6 {
			value = nil
		}
		return value, rest, ok
	}
	if len(block) < size {
		return nil, nil, false
	}
	return nil, block[size:], true
}

// cutCounted cuts off bytes after their count, which has width bytes.
func cutCounted(block []byte, width int) (value, rest []byte, ok bool) {
	if len(block) < width {
		return nil, nil, false
	}
	n := int(block[0])
	if width == 2 {
		n = int(binary.BigEndian.Uint16(block))
	}
	block = block[width:]
	if len(block) < n {
		return nil, nil, false
	}
	return block[:n], block[n:], true
}

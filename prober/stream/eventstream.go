package stream

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"golang.org/x/crypto/cryptobyte"
)

const (
	// preludeSize is two lengths and their checksum; crcSize a checksum.
	preludeSize     = 12
	crcSize         = 4
	maxEventHeaders = 128 << 10 // the most bytes of headers that the format allows
)

// eventStreamReader reads messages of the format application/vnd.amazon.eventstream:
//
//	total length u32 | headers length u32 | CRC32 of these 8 bytes
//	headers | payload | CRC32 of all before
//
// The name of a frame is the message's :event-type; "exception:TYPE" for an exception and "error:CODE" for an error,
// whose data is its :error-message where it has no payload.
//
// The decoder of aws-sdk-go-v2 is not used: it reads from an io.Reader piece by piece, so that no read that completed a
// message is known, and it allocates 38 times for each, once a token.
type eventStreamReader struct {
	buffer
	cut  int    // length of the message that the last frame holds
	name []byte // of the last frame
}

// Next implements Reader. A body that ends inside a message is
// io.ErrUnexpectedEOF: what there is of it cannot be checked.
func (s *eventStreamReader) Next() (Frame, error) {
	if s.failed != nil {
		return Frame{}, s.failed
	}
	s.start += s.cut
	s.cut = 0
	for {
		message, err := s.message()
		switch {
		case err != nil:
			return s.fail(err)
		case message != nil:
			return s.cutOut(message)
		case s.err == io.EOF && len(s.unread()) > 0:
			return s.fail(fmt.Errorf("reply ended inside a message: %w", io.ErrUnexpectedEOF))
		case s.err != nil:
			return s.fail(s.err)
		}
		s.fill()
	}
}

// message returns the next message once it is complete, nil before.
func (s *eventStreamReader) message() ([]byte, error) {
	got := s.unread()
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
		return nil, s.tooLong()
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

// cutOut returns a complete message as a frame. The message stays in the buffer
// until the next call, so that Data stays valid.
func (s *eventStreamReader) cutOut(message []byte) (Frame, error) {
	headers := preludeSize + int(binary.BigEndian.Uint32(message[4:]))
	var h eventHeaders
	if err := h.read(message[preludeSize:headers]); err != nil {
		return s.fail(err)
	}
	s.cut = len(message)
	data := message[headers : len(message)-crcSize]
	if len(data) == 0 {
		data = h.errorMessage
	}
	s.name = h.appendName(s.name[:0])
	return s.frame(s.name, data, len(s.unread()) > len(message))
}

// eventHeaders are the headers of a message that identify it.
type eventHeaders struct {
	messageType, eventType, exceptionType, errorCode, errorMessage []byte
}

func (h *eventHeaders) appendName(dst []byte) []byte {
	switch string(h.messageType) {
	case "exception":
		return append(append(dst, "exception:"...), h.exceptionType...)
	case "error":
		return append(append(dst, "error:"...), h.errorCode...)
	}
	return append(dst, h.eventType...)
}

// read reads a block of headers: length u8, name, type u8, value.
func (h *eventHeaders) read(block []byte) error {
	for rest := cryptobyte.String(block); !rest.Empty(); {
		var name, text cryptobyte.String
		if !rest.ReadUint8LengthPrefixed(&name) || name.Empty() || !readEventValue(&rest, &text) {
			return fmt.Errorf("%w: headers of a message", ErrMalformed)
		}
		switch string(name) {
		case ":message-type":
			h.messageType = text
		case ":event-type":
			h.eventType = text
		case ":exception-type":
			h.exceptionType = text
		case ":error-code":
			h.errorCode = text
		case ":error-message":
			h.errorMessage = text
		}
	}
	return nil
}

// readEventValue reads the type and the value of a header off a block; only a text is kept.
func readEventValue(block, text *cryptobyte.String) bool {
	var kind uint8
	if !block.ReadUint8(&kind) {
		return false
	}
	if kind == 7 { // text, as almost all are
		return block.ReadUint16LengthPrefixed(text)
	}
	// Lengths of the types: true, false, byte, short, integer, long, bytes, text, timestamp, UUID.
	sizes := [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16}
	if kind == 6 {
		return block.ReadUint16LengthPrefixed(new(cryptobyte.String))
	}
	return int(kind) < len(sizes) && block.Skip(sizes[kind])
}

// Package stream cuts the body of a streaming reply into frames. It knows framing only, not what a frame means, and
// keeps no time: a frame says which Read call completed it, and whoever owns the io.Reader stamps its reads. Whatever a
// server sends, memory stays within Limits.
package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge is a reply past one of its Limits.
var ErrTooLarge = errors.New("reply too large")

// Limits bound what one reply may cost.
type Limits struct {
	Line   int   // the longest line in bytes, its end aside
	Event  int   // the most data of one frame in bytes
	Body   int64 // the most bytes of the whole reply
	Events int   // the most frames of the whole reply
	// Reserve is asked before the buffers of the reply grow to so many bytes, whenever that is more than FreeBuffer;
	// its error ends the reply. nil permits everything.
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
	// Event is the event's name, empty by default and valid as long as Data. A line "error: ..." makes it "error": no SSE field has that name, yet
	// llama.cpp reported failures so until autumn 2025.
	Event []byte
	Data  []byte // the payload, valid until the next call of Next
	Read  int    // the ordinal, from 1, of the Read call that completed the frame
	// More reports that the same Read call brought more after this frame than
	// line ends, so that its time is only an upper bound on the arrival.
	More bool
	// Partial reports that the input ended before the blank line that closes an event. The SSE specification discards
	// such an event; here the caller judges whether its payload is whole.
	Partial bool
}

// Framing is a way to cut a body into frames.
type Framing int

const (
	SSE         Framing = iota // server-sent events
	NDJSON                     // one JSON value in each line
	EventStream                // the binary format of AWS, application/vnd.amazon.eventstream
	Whole                      // the whole body as one frame
)

// Reader cuts a body into frames.
type Reader interface {
	// Next returns the next frame. It calls Read only when no complete frame is buffered, so a frame was completed by
	// the latest Read. The error is io.EOF at the end of the input, ErrTooLarge past a limit, ErrMalformed where the
	// input is not framed so, or what Read returned; every later call returns it again.
	Next() (Frame, error)
	// Frames counts the frames so far.
	Frames() int
	// Head returns the first bytes of a body without frames, 2 KiB at most: they
	// show what came instead. Keep-alives of the framing are no part of it.
	Head() []byte
}

// New returns a reader of the frames in r. It is not safe for concurrent use. Of the limits of
// Whole only the one on the body holds.
func New(f Framing, r io.Reader, l Limits) Reader {
	switch f {
	case EventStream:
		return &eventStreamReader{buffer: newBuffer(r, l, preludeSize+maxEventHeaders+l.Event+crcSize+1)}
	case Whole:
		return &wholeReader{newBuffer(r, l, int(l.Body)+1)}
	case NDJSON:
		return &ndjsonReader{newLines(r, l)}
	case SSE:
	}
	return &sseReader{lines: newLines(r, l)}
}

const (
	// firstBuffer holds several events of a usual reply; the buffer doubles from there up to its limit.
	firstBuffer   = 4 << 10
	headSize      = 2 << 10 // how much of a body without frames is kept for diagnosis
	maxEmptyReads = 100     // how many reads in a row may bring nothing, as in bufio
)

// buffer holds what was read of a body and not yet cut into frames.
type buffer struct {
	r      io.Reader
	limits Limits
	room   int // length that buf may grow to
	beside int // bytes that the owner holds beside buf

	buf        []byte
	start, end int   // buf[start:end] is read and not yet cut
	err        error // what ended the reading
	failed     error // what ended the cutting into frames

	reads   int    // Read calls so far
	brought int    // ordinal of the last Read call that brought bytes
	bytes   int64  // bytes read, within the limit on the body
	head    []byte // the first of them, up to the first frame
	frames  int    // cut so far
}

// newBuffer returns a buffer of a body, which may grow to room bytes.
func newBuffer(r io.Reader, l Limits, room int) buffer {
	return buffer{r: r, limits: l, room: room, buf: make([]byte, firstBuffer)}
}

func (b *buffer) Frames() int { return b.frames }

func (b *buffer) Head() []byte { return b.head }

// frame returns data as the next frame, unless there were too many.
func (b *buffer) frame(event, data []byte, more bool) (Frame, error) {
	if b.frames >= b.limits.Events {
		return b.fail(fmt.Errorf("%w: over %d events", ErrTooLarge, b.limits.Events))
	}
	b.frames++
	return Frame{Event: event, Data: data, Read: b.brought, More: more}, nil
}

func (b *buffer) fail(err error) (Frame, error) {
	b.failed = err
	return Frame{}, err
}

// tooLong is the error of data that exceeds the limit on a frame.
func (b *buffer) tooLong() error {
	return fmt.Errorf("%w: event over %d bytes", ErrTooLarge, b.limits.Event)
}

func (b *buffer) unread() []byte { return b.buf[b.start:b.end] }

// fill makes room and reads once, or more often while a read brings nothing.
// Whoever calls it has refused what is as long as the buffer may grow.
func (b *buffer) fill() {
	if b.err = b.makeRoom(); b.err != nil {
		return
	}
	for range maxEmptyReads {
		n, err := b.r.Read(b.buf[b.end:])
		b.reads++
		if n > 0 {
			b.brought = b.reads
			b.took(n)
		}
		if err != nil && b.err == nil {
			b.err = err
		}
		if n > 0 || b.err != nil {
			return
		}
	}
	b.err = io.ErrNoProgress
}

// took accounts for n bytes read behind b.end. Bytes past the limit on the body are dropped, so that the frames before
// it do not depend on how the body was cut into reads.
func (b *buffer) took(n int) {
	b.bytes += int64(n)
	if excess := b.bytes - b.limits.Body; excess > 0 {
		n -= int(excess)
		b.bytes = b.limits.Body
		b.err = fmt.Errorf("%w: body over %d bytes", ErrTooLarge, b.limits.Body)
	}
	if room := headSize - len(b.head); room > 0 && b.frames == 0 {
		b.head = append(b.head, b.buf[b.end:b.end+min(n, room)]...)
	}
	b.end += n
}

// makeRoom leaves at least one byte free behind b.end.
func (b *buffer) makeRoom() error {
	if b.start == b.end {
		b.start, b.end = 0, 0
	}
	if b.end < len(b.buf) {
		return nil
	}
	buf := b.buf
	if b.start == 0 {
		size := min(2*len(buf), b.room)
		if err := b.ask(size + b.beside); err != nil {
			return err
		}
		buf = make([]byte, size)
	}
	b.end = copy(buf, b.unread())
	b.start = 0
	b.buf = buf
	return nil
}

// ask asks for the leave to hold so many bytes.
func (b *buffer) ask(bytes int) error {
	if b.limits.Reserve == nil || bytes <= FreeBuffer {
		return nil
	}
	return b.limits.Reserve(bytes)
}

// byteOrderMark may lead a UTF-8 body and is not part of its first line.
const byteOrderMark = "\xef\xbb\xbf"

// lines cuts a body into lines that end in LF, CRLF or CR. It reads only when no complete line is buffered. A CR ends
// its line at once, so that a line never waits for the LF that may follow; that LF is swallowed when it comes.
type lines struct {
	buffer

	scanned int  // so many bytes from start on hold no line end
	begun   bool // a byte order mark was looked for
	skipLF  bool // the last line ended in CR
}

func newLines(r io.Reader, l Limits) lines { return lines{buffer: newBuffer(r, l, l.Line+1)} }

// next returns the next line without its end, valid until the next call. With
// an error comes the unfinished line that the body ended in, maybe empty.
func (l *lines) next() ([]byte, error) {
	for {
		if line, ok := l.cut(); ok {
			if len(line) > l.limits.Line {
				return nil, l.lineTooLong()
			}
			return line, nil
		}
		if len(l.unread()) > l.limits.Line {
			return nil, l.lineTooLong()
		}
		if l.err != nil {
			rest := l.unread()
			l.start, l.scanned = l.end, 0
			return rest, l.err
		}
		l.fill()
	}
}

func (l *lines) lineTooLong() error {
	return fmt.Errorf("%w: line over %d bytes", ErrTooLarge, l.limits.Line)
}

func (l *lines) cut() ([]byte, bool) {
	if !l.begun && !l.begin() {
		return nil, false
	}
	if l.skipLF && l.start < l.end {
		l.skipLF = false
		if l.buf[l.start] == '\n' {
			l.start++
		}
	}
	fresh := l.unread()[l.scanned:]
	n := bytes.IndexByte(fresh, '\n')
	if n >= 0 {
		fresh = fresh[:n]
	}
	if cr := bytes.IndexByte(fresh, '\r'); cr >= 0 {
		n, l.skipLF = cr, true
	}
	if n < 0 {
		l.scanned = l.end - l.start
		return nil, false
	}
	line := l.unread()[:l.scanned+n]
	l.start, l.scanned = l.start+len(line)+1, 0
	return line, true
}

// begin skips a leading byte order mark; false is that more bytes must show whether there is one.
func (l *lines) begin() bool {
	got := l.unread()
	if len(got) < len(byteOrderMark) && l.err == nil && bytes.HasPrefix([]byte(byteOrderMark), got) {
		return false
	}
	if bytes.HasPrefix(got, []byte(byteOrderMark)) {
		l.start += len(byteOrderMark)
	}
	l.begun = true
	return true
}

// more reports whether the buffer holds anything but line ends.
func (l *lines) more() bool {
	return len(bytes.TrimLeft(l.unread(), "\r\n")) > 0
}

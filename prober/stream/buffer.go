package stream

import (
	"fmt"
	"io"
)

const (
	// firstBuffer holds several events of a usual reply; the buffer doubles
	// from there up to its limit.
	firstBuffer = 4 << 10
	// keptBuffer is the largest buffer that a Reset keeps.
	keptBuffer = 64 << 10
	// headSize is how much of a body without frames is kept for diagnosis.
	headSize = 2 << 10
	// maxEmptyReads is how many reads in a row may bring nothing, as in bufio.
	maxEmptyReads = 100
)

// buffer holds what was read of a body and not yet cut into frames.
type buffer struct {
	r         io.Reader
	bodyLimit int64
	room      int // length that buf may grow to
	reserve   func(bytes int) error
	beside    int // bytes that the owner holds beside buf

	buf        []byte
	start, end int   // buf[start:end] is read and not yet cut
	err        error // what ended the reading

	reads   int    // Read calls so far
	brought int    // ordinal of the last Read call that brought bytes
	bytes   int64  // bytes read, within the limit on the body
	head    []byte // the first of them
}

// reset prepares b for another body and keeps its memory. The buffer may grow
// to room bytes.
func (b *buffer) reset(r io.Reader, l Limits, room int) {
	buf, head := b.buf, b.head[:0]
	if buf == nil || len(buf) > keptBuffer {
		buf = make([]byte, firstBuffer)
	}
	if head == nil {
		head = make([]byte, 0, headSize)
	}
	*b = buffer{r: r, bodyLimit: l.Body, room: room, reserve: l.Reserve, buf: buf, head: head}
}

// unread returns what was read and not yet cut.
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

// took accounts for n bytes read behind b.end. Bytes past the limit on the
// body are dropped, so that the frames before it do not depend on how the
// body was cut into reads.
func (b *buffer) took(n int) {
	b.bytes += int64(n)
	if excess := b.bytes - b.bodyLimit; excess > 0 {
		n -= int(excess)
		b.bytes = b.bodyLimit
		b.err = fmt.Errorf("%w: body over %d bytes", ErrTooLarge, b.bodyLimit)
	}
	if room := headSize - len(b.head); room > 0 {
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
	if b.reserve == nil || bytes <= FreeBuffer {
		return nil
	}
	return b.reserve(bytes)
}

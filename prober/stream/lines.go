package stream

import (
	"bytes"
	"fmt"
	"io"
)

const (
	// firstBuffer holds several events of a usual reply; the buffer doubles
	// from there up to the limit on a line.
	firstBuffer = 4 << 10
	// keptBuffer is the largest buffer that a Reset keeps.
	keptBuffer = 64 << 10
	// headSize is how much of a body without frames is kept for diagnosis.
	headSize = 2 << 10
	// maxEmptyReads is how many reads in a row may bring nothing, as in bufio.
	maxEmptyReads = 100
)

// byteOrderMark may lead a UTF-8 body and is not part of its first line.
const byteOrderMark = "\xef\xbb\xbf"

// lines cuts a body into lines that end in LF, CRLF or CR. It reads only when
// no complete line is buffered. A CR ends its line at once, so that a line
// never waits for the LF that may follow; that LF is swallowed when it comes.
type lines struct {
	r      io.Reader
	limits Limits

	buf        []byte
	start, end int   // buf[start:end] is read and not yet cut
	scanned    int   // buf[start:scanned] holds no line end
	err        error // what ended the reading, delivered after the last line
	begun      bool  // a byte order mark was looked for
	skipLF     bool  // the last line ended in CR

	reads   int    // Read calls so far
	brought int    // ordinal of the last Read call that brought bytes
	bytes   int64  // bytes read, within the limit on the body
	head    []byte // the first of them
}

// reset prepares l for another body and keeps its memory.
func (l *lines) reset(r io.Reader, limits Limits) {
	buf, head := l.buf, l.head[:0]
	if buf == nil || len(buf) > keptBuffer {
		buf = make([]byte, firstBuffer)
	}
	if head == nil {
		head = make([]byte, 0, headSize)
	}
	*l = lines{r: r, limits: limits, buf: buf, head: head}
}

// next returns the next line without its end, valid until the next call. With
// an error comes the unfinished line that the body ended in, maybe empty.
func (l *lines) next() ([]byte, error) {
	for {
		if line, ok := l.cut(); ok {
			if len(line) > l.limits.Line {
				return nil, l.tooLong()
			}
			return line, nil
		}
		if l.end-l.start > l.limits.Line {
			return nil, l.tooLong()
		}
		if l.err != nil {
			rest := l.buf[l.start:l.end]
			l.start, l.scanned = l.end, l.end
			return rest, l.err
		}
		l.fill()
	}
}

func (l *lines) tooLong() error {
	return fmt.Errorf("%w: line over %d bytes", ErrTooLarge, l.limits.Line)
}

// cut takes a complete line out of the buffer.
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
	l.scanned = max(l.scanned, l.start)
	fresh := l.buf[l.scanned:l.end]
	n := bytes.IndexByte(fresh, '\n')
	if n >= 0 {
		fresh = fresh[:n]
	}
	if cr := bytes.IndexByte(fresh, '\r'); cr >= 0 {
		n, l.skipLF = cr, true
	}
	if n < 0 {
		l.scanned = l.end
		return nil, false
	}
	stop := l.scanned + n
	line := l.buf[l.start:stop]
	l.start, l.scanned = stop+1, stop+1
	return line, true
}

// begin skips a leading byte order mark; false is that more bytes must tell
// whether there is one.
func (l *lines) begin() bool {
	got := l.buf[l.start:l.end]
	if len(got) < len(byteOrderMark) && l.err == nil && bytes.HasPrefix([]byte(byteOrderMark), got) {
		return false
	}
	if bytes.HasPrefix(got, []byte(byteOrderMark)) {
		l.start += len(byteOrderMark)
	}
	l.begun = true
	return true
}

// fill makes room and reads once, or more often while a read brings nothing.
func (l *lines) fill() {
	l.makeRoom()
	for range maxEmptyReads {
		n, err := l.r.Read(l.buf[l.end:])
		l.reads++
		if n > 0 {
			l.brought = l.reads
			l.took(n)
		}
		if err != nil && l.err == nil {
			l.err = err
		}
		if n > 0 || l.err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}

// took accounts for n bytes read behind l.end. Bytes past the limit on the
// body are dropped, so that the frames before it do not depend on how the
// body was cut into reads.
func (l *lines) took(n int) {
	l.bytes += int64(n)
	if excess := l.bytes - l.limits.Body; excess > 0 {
		n -= int(excess)
		l.bytes = l.limits.Body
		l.err = fmt.Errorf("%w: body over %d bytes", ErrTooLarge, l.limits.Body)
	}
	if room := headSize - len(l.head); room > 0 {
		l.head = append(l.head, l.buf[l.end:l.end+min(n, room)]...)
	}
	l.end += n
}

// makeRoom leaves at least one byte free behind l.end. A buffer that one line
// fills is no longer than the limit on a line, or next had refused the line.
func (l *lines) makeRoom() {
	if l.start == l.end {
		l.start, l.end, l.scanned = 0, 0, 0
	}
	if l.end < len(l.buf) {
		return
	}
	buf := l.buf
	if l.start == 0 {
		buf = make([]byte, min(2*len(buf), l.limits.Line+1))
	}
	l.end = copy(buf, l.buf[l.start:l.end])
	l.scanned -= l.start
	l.start = 0
	l.buf = buf
}

// more tells whether the buffer holds anything but line ends.
func (l *lines) more() bool {
	return len(bytes.TrimLeft(l.buf[l.start:l.end], "\r\n")) > 0
}

package stream

import (
	"bytes"
	"fmt"
	"io"
)

// byteOrderMark may lead a UTF-8 body and is not part of its first line.
const byteOrderMark = "\xef\xbb\xbf"

// lines cuts a body into lines that end in LF, CRLF or CR. It reads only when
// no complete line is buffered. A CR ends its line at once, so that a line
// never waits for the LF that may follow; that LF is swallowed when it comes.
type lines struct {
	buffer
	limits Limits

	scanned int  // so many bytes from start on hold no line end
	begun   bool // a byte order mark was looked for
	skipLF  bool // the last line ended in CR
}

// reset prepares l for another body and keeps its memory.
func (l *lines) reset(r io.Reader, limits Limits) {
	b := l.buffer
	b.reset(r, limits, limits.Line+1)
	*l = lines{buffer: b, limits: limits}
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
		if len(l.unread()) > l.limits.Line {
			return nil, l.tooLong()
		}
		if l.err != nil {
			rest := l.unread()
			l.start, l.scanned = l.end, 0
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

// begin skips a leading byte order mark; false is that more bytes must tell
// whether there is one.
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

// more tells whether the buffer holds anything but line ends.
func (l *lines) more() bool {
	return len(bytes.TrimLeft(l.unread(), "\r\n")) > 0
}

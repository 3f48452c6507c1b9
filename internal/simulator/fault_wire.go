package simulator

import (
	"bytes"
	"compress/gzip"
	"time"
	"unicode/utf8"
)

// wireFaults write the right bytes at the wrong time or in the wrong form.
func wireFaults() []Fault {
	return []Fault{
		{Name: "slow_drip", Description: "Writes one byte a second.", wire: func(x *exchange) wire {
			return pieceWire{flushWire{x}, func([]byte) int { return 1 }, time.Second}
		}},
		{Name: "split_writes", Description: "Writes each event in pieces of seven bytes.", wire: func(x *exchange) wire {
			return pieceWire{flushWire{x}, func([]byte) int { return 7 }, time.Millisecond}
		}},
		{Name: "split_utf8", Description: "Writes tokens beyond ASCII, each character split over two writes.", shape: utf8Tokens, wire: func(x *exchange) wire {
			return pieceWire{flushWire{x}, toInsideRune, time.Millisecond}
		}},
		{Name: "crlf_split", Description: "Ends lines with CRLF, each split over two writes.", frame: sseFrame("data: ", "\r\n"), wire: func(x *exchange) wire {
			return pieceWire{flushWire{x}, toInsideCRLF, time.Millisecond}
		}},
		{Name: "buffered", Description: "Holds the answer back and writes it in one burst at the end, as a buffering proxy does.", wire: func(x *exchange) wire {
			return &bufferedWire{x: x}
		}},
		{Name: "one_read", Description: "Writes headers and all events with one system call, at the end.", wire: func(x *exchange) wire {
			return &oneWriteWire{x: x}
		}},
		{Name: "gzip", Description: "Compresses the stream, asked or not.", wire: func(x *exchange) wire {
			return &gzipWire{flushWire: flushWire{x}}
		}},
	}
}

// pieceWire writes an event in pieces with a pause between.
type pieceWire struct {
	flushWire
	// cut returns the length of the next piece of b; the rest is one piece if
	// it returns 0 or too much.
	cut   func(b []byte) int
	pause time.Duration
}

func (w pieceWire) write(e *event, b []byte) error {
	for {
		n := w.cut(b)
		if n <= 0 || n >= len(b) {
			return w.flushWire.write(e, b)
		}
		if err := w.x.send(b[:n]); err != nil {
			return err
		}
		b = b[n:]
		if err := sleep(w.x.ctx(), w.pause); err != nil {
			return err
		}
	}
}

// toInsideRune is the length up to the first byte of the first character that
// has several.
func toInsideRune(b []byte) int {
	for i, c := range b {
		if c >= utf8.RuneSelf && utf8.RuneStart(c) {
			return i + 1
		}
	}
	return 0
}

func toInsideCRLF(b []byte) int { return bytes.IndexByte(b, '\r') + 1 }

// utf8Tokens replaces the text of each token.
func utf8Tokens(_ *exchange, next sink) sink {
	texts := []string{" café", " 数字", " 😀"}
	i := 0
	return func(e *event) error {
		if e.tokens == 0 {
			return next(e)
		}
		odd := *e
		odd.text = []byte(texts[i%len(texts)])
		i++
		return next(&odd)
	}
}

// bufferedWire sends the headers at once and all events at the end.
type bufferedWire struct {
	x    *exchange
	body []byte
}

func (w *bufferedWire) open() error { return flushWire{w.x}.open() }

func (w *bufferedWire) write(e *event, b []byte) error {
	w.x.rec.add(e.kind, e.tokens)
	w.body = append(w.body, b...)
	return nil
}

func (w *bufferedWire) close() error { return w.x.send(w.body) }

// oneWriteWire takes the connection over to write the whole reply at once.
type oneWriteWire struct {
	x    *exchange
	body []byte
}

func (w *oneWriteWire) open() error { return nil }

func (w *oneWriteWire) write(e *event, b []byte) error {
	w.x.rec.add(e.kind, e.tokens)
	w.body = append(w.body, b...)
	return nil
}

func (w *oneWriteWire) close() error {
	c, err := w.x.hijack()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // the write reports what matters
	if w.x.conn == nil {
		w.x.rec.stamp(time.Now())
	}
	head := "HTTP/1.1 200 OK\r\nContent-Type: " + w.x.contentType + "\r\nConnection: close\r\n\r\n"
	_, err = c.Write(append([]byte(head), w.body...))
	return err
}

// gzipWire compresses the events, each flushed.
type gzipWire struct {
	flushWire
	buf bytes.Buffer
	zip *gzip.Writer
}

func (w *gzipWire) open() error {
	w.x.w.Header().Set("Content-Encoding", "gzip")
	w.zip = gzip.NewWriter(&w.buf)
	return w.flushWire.open()
}

func (w *gzipWire) write(e *event, b []byte) error {
	w.buf.Reset()
	if _, err := w.zip.Write(b); err != nil {
		return err
	}
	if err := w.zip.Flush(); err != nil {
		return err
	}
	return w.flushWire.write(e, w.buf.Bytes())
}

func (w *gzipWire) close() error {
	w.buf.Reset()
	if err := w.zip.Close(); err != nil {
		return err
	}
	return w.x.send(w.buf.Bytes())
}

package app

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// maxLogText bounds a text in a line of the log, in bytes.
const maxLogText = 16 << 10

// newLogger returns a logger that writes lines in the given format, "logfmt" or "json", to w, without
// the secrets. Keys and levels are those of go-kit, as other exporters have them.
func newLogger(w io.Writer, format string, level slog.Leveler, secrets *safetext.Secrets) *slog.Logger {
	o := &slog.HandlerOptions{AddSource: true, Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		key, text, ok := plain(a)
		if !ok {
			return a
		}
		return slog.String(key, secrets.Block(text, maxLogText))
	}}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// plain returns the key of an attribute and its value as a text, which both formats print alike; false
// where the value is a number or a bool.
func plain(a slog.Attr) (key, text string, ok bool) {
	switch v := a.Value.Any().(type) {
	case *slog.Source:
		return "caller", filepath.Base(v.File) + ":" + strconv.Itoa(v.Line), true
	case slog.Level:
		return a.Key, strings.ToLower(v.String()), true
	case time.Time:
		if a.Key == slog.TimeKey {
			return "ts", v.UTC().Format("2006-01-02T15:04:05.000Z07:00"), true
		}
		return a.Key, v.Format(time.RFC3339Nano), true
	case error:
		return a.Key, v.Error(), true
	case fmt.Stringer:
		return a.Key, v.String(), true
	}
	ok = a.Value.Kind() == slog.KindString || a.Value.Kind() == slog.KindAny && a.Value.Any() != nil
	return a.Key, fmt.Sprintf("%+v", a.Value.Any()), ok
}

const (
	// maxLogLines is how many lines of the log wait for its reader.
	maxLogLines = 1024
	// logPatience is how long the end of the program waits for the reader.
	logPatience = time.Second
)

// logQueue writes the lines of a log from a goroutine of its own, so that a
// reader which does not read, or is gone, holds up nobody: lines that it does
// not take are lost and counted.
type logQueue struct {
	w       io.Writer
	lines   chan []byte
	closing chan struct{}
	ended   chan struct{}
	lost    atomic.Uint64
}

// newLogQueue returns a queue before w. It must be closed.
func newLogQueue(w io.Writer) *logQueue {
	q := &logQueue{
		w: w, lines: make(chan []byte, maxLogLines), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	go q.run()
	return q
}

// Write takes a line and never blocks.
func (q *logQueue) Write(line []byte) (int, error) {
	select {
	case q.lines <- bytes.Clone(line):
	default:
		q.lost.Add(1)
	}
	return len(line), nil
}

func (q *logQueue) run() {
	defer close(q.ended)
	for {
		select {
		case line := <-q.lines:
			q.write(line)
		case <-q.closing:
			for range len(q.lines) {
				q.write(<-q.lines)
			}
			return
		}
	}
}

func (q *logQueue) write(line []byte) {
	if _, err := q.w.Write(line); err != nil {
		q.lost.Add(1)
	}
}

// close waits for the lines so far to be written, but not for long.
func (q *logQueue) close() {
	close(q.closing)
	select {
	case <-q.ended:
	case <-time.After(logPatience):
	}
}

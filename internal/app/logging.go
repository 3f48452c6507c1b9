package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// newLogger returns a logger that writes lines by go-kit/log, the package that this project has to use, in the given format, "logfmt"
// or "json", to w, without the secrets.
func newLogger(w io.Writer, format string, level slog.Leveler, secrets *safetext.Secrets) *slog.Logger {
	enc := log.NewLogfmtLogger(log.NewSyncWriter(w))
	if format == "json" {
		enc = log.NewJSONLogger(log.NewSyncWriter(w))
	}
	return slog.New(&logHandler{encoder: enc, level: level, secrets: secrets})
}

// logHandler is a slog.Handler that lets a go-kit logger do the encoding.
// prometheus/common/promslog does not: it encodes with slog's own handlers.
type logHandler struct {
	encoder log.Logger
	level   slog.Leveler
	secrets *safetext.Secrets
	bound   []any  // key, value, ... of WithAttrs
	prefix  string // open groups, each with a trailing dot
}

var _ slog.Handler = (*logHandler)(nil)

// Enabled filters by level here, so that a disabled line costs nothing.
func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool {
	return l >= h.level.Level()
}

// Handle writes one line.
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	kv := make([]any, 0, 8+len(h.bound)+2*r.NumAttrs())
	if !r.Time.IsZero() {
		kv = append(kv, "ts", r.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	}
	kv = append(kv, "level", strings.ToLower(r.Level.String()))
	// go-kit's own caller would name this file.
	if r.PC != 0 {
		f, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
		kv = append(kv, "caller", filepath.Base(f.File)+":"+strconv.Itoa(f.Line))
	}
	kv = append(kv, "msg", r.Message)
	kv = append(kv, h.bound...)
	r.Attrs(func(a slog.Attr) bool {
		kv = appendAttr(kv, h.prefix, a)
		return true
	})
	for i := 1; i < len(kv); i += 2 {
		if text, ok := kv[i].(string); ok {
			kv[i] = h.secrets.Block(text, maxLogText)
		}
	}
	err := h.encoder.Log(kv...)
	if err == nil {
		return nil
	}
	// The encoder drops the whole line for one value that it cannot encode.
	for i := 1; i < len(kv); i += 2 {
		kv[i] = fmt.Sprint(kv[i])
	}
	return h.encoder.Log(kv...)
}

// WithAttrs returns a handler whose lines all carry the attributes.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	n.bound = append([]any(nil), h.bound...)
	for _, a := range attrs {
		n.bound = appendAttr(n.bound, h.prefix, a)
	}
	return &n
}

// WithGroup returns a handler that puts "name." before the keys that follow.
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	n := *h
	n.prefix += name + "."
	return &n
}

// appendAttr appends key and value; a group becomes one pair per member.
func appendAttr(kv []any, prefix string, a slog.Attr) []any {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, m := range v.Group() {
			kv = appendAttr(kv, prefix, m)
		}
		return kv
	}
	if a.Key == "" { // logfmt would reject the line
		return kv
	}
	return append(kv, prefix+a.Key, plain(v))
}

// plain makes a value that both encoders print alike.
func plain(v slog.Value) any {
	switch x := v.Any().(type) {
	case time.Time:
		return x.Format(time.RFC3339Nano)
	case error:
		return x.Error()
	case fmt.Stringer: // a duration, too
		return x.String()
	}
	if v.Kind() == slog.KindAny && v.Any() != nil {
		return fmt.Sprintf("%+v", v.Any())
	}
	return v.Any()
}

// maxLogText bounds a text in a line of the log, in bytes.
const maxLogText = 16 << 10

const (
	// maxLogLines is how many lines of the log wait for its reader.
	maxLogLines = 1024
	// logPatience is how long the end of the program waits for the reader.
	logPatience = time.Second
)

// logQueue writes the lines of a log from a goroutine of its own, so that a reader which does not read, or is gone,
// holds up nobody: lines that it does not take are lost and counted.
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

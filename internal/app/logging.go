package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
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
	kv = append(kv, "level", levelName(r.Level))
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
	switch v.Kind() {
	case slog.KindDuration:
		return v.Duration().String()
	case slog.KindTime:
		return v.Time().Format(time.RFC3339Nano)
	case slog.KindAny:
		return plainAny(v.Any())
	}
	return v.Any()
}

func plainAny(x any) any {
	switch t := x.(type) {
	case nil:
		return nil
	case error:
		return t.Error()
	case fmt.Stringer:
		return t.String()
	}
	switch reflect.TypeOf(x).Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array, reflect.Pointer, reflect.Func, reflect.Chan:
		return fmt.Sprintf("%+v", x)
	}
	return x
}

// levelName maps a level down to the nearest of the four names.
func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	case l >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}

// maxLogText bounds a text in a line of the log, in bytes.
const maxLogText = 16 << 10

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
			q.flush()
			return
		}
	}
}

// flush writes what is queued.
func (q *logQueue) flush() {
	for {
		select {
		case line := <-q.lines:
			q.write(line)
		default:
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
	late := time.NewTimer(logPatience)
	defer late.Stop()
	select {
	case <-q.ended:
	case <-late.C:
	}
}

// dropped returns how many lines were lost so far.
func (q *logQueue) dropped() uint64 { return q.lost.Load() }

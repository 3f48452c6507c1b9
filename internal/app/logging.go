package app

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	sloggokit "github.com/tjhop/slog-gokit"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// newLogger returns a logger that writes lines in the given format, "logfmt" or "json", to w, without the secrets.
// prometheus/common/promslog encodes with slog's own handlers; here go-kit does, as in other exporters.
func newLogger(w io.Writer, format string, level slog.Leveler, secrets *safetext.Secrets) *slog.Logger {
	encoder := log.NewLogfmtLogger(log.NewSyncWriter(w))
	if format == "json" {
		encoder = log.NewJSONLogger(log.NewSyncWriter(w))
	}
	return slog.New(sloggokit.NewGoKitHandler(log.LoggerFunc(func(pairs ...any) error {
		line := make([]any, 0, len(pairs))
		for i := 0; i < len(pairs); i += 2 {
			key, value := pairs[i], plain(pairs[i+1])
			if text, ok := value.(string); ok {
				value = secrets.Block(text, maxLogText)
			}
			if at, ok := pairs[i+1].(time.Time); ok { // of the line
				line = append([]any{"ts", at.UTC().Format("2006-01-02T15:04:05.000Z07:00")}, line...)
			} else if key != "" { // logfmt would reject the line
				line = append(line, key, value)
			}
		}
		if encoder.Log(line...) == nil {
			return nil
		}
		// The encoder drops the whole line for one value that it cannot encode.
		for i := 1; i < len(line); i += 2 {
			line[i] = fmt.Sprint(line[i])
		}
		return encoder.Log(line...)
	}), level))
}

// plain makes a value that both encoders print alike.
func plain(v any) any {
	if value, ok := v.(slog.Value); ok {
		v = value.Any()
	}
	switch x := v.(type) {
	case nil, string, bool, int64, uint64, float64:
		return x
	case time.Time:
		return x.Format(time.RFC3339Nano)
	case error:
		return x.Error()
	case fmt.Stringer: // a duration or a level, too
		return x.String()
	}
	return fmt.Sprintf("%+v", v)
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

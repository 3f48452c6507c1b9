package app

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"
)

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

package app

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// writerFunc writes.
type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestLogQueueKeepsTheOrder(t *testing.T) {
	var got bytes.Buffer
	q := newLogQueue(&got)
	line := []byte("first\n")
	for range 3 {
		if _, err := q.Write(line); err != nil {
			t.Fatal(err)
		}
		copy(line, "later") // the writer may use it again
	}
	q.close()
	if want := "first\nlater\nlater\n"; got.String() != want || q.dropped() != 0 {
		t.Errorf("wrote %q, dropped %d", got.String(), q.dropped())
	}
}

// A reader that does not read costs the lines that it misses, and no time.
func TestLogQueueOfReaderThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		q := newLogQueue(w)
		start := time.Now()
		_, _ = io.WriteString(q, "taken\n")
		synctest.Wait() // it hangs in the pipe
		for range maxLogLines + 5 {
			_, _ = io.WriteString(q, "line\n")
		}
		if q.dropped() != 5 || time.Since(start) != 0 {
			t.Errorf("dropped %d lines within %s", q.dropped(), time.Since(start))
		}
		q.close()
		if d := time.Since(start); d != logPatience {
			t.Errorf("closed after %s", d)
		}
		var got strings.Builder
		go func() {
			<-q.ended
			w.Close()
		}()
		if _, err := io.Copy(&got, r); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(got.String(), "\n"); n != maxLogLines+1 {
			t.Errorf("%d lines came, want %d", n, maxLogLines+1)
		}
	})
}

func TestLogQueueOfReaderThatIsGone(t *testing.T) {
	q := newLogQueue(writerFunc(func([]byte) (int, error) { return 0, errors.New("broken pipe") }))
	for range 3 {
		_, _ = io.WriteString(q, "line\n")
	}
	q.close()
	if q.dropped() != 3 {
		t.Errorf("dropped %d lines, want 3", q.dropped())
	}
}

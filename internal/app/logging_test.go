package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"
)

func TestLogHandlerConforms(t *testing.T) {
	var buf bytes.Buffer
	h := newLogger(&buf, "json", slog.LevelInfo, nil).Handler()
	err := slogtest.TestHandler(h, func() []map[string]any {
		var out []map[string]any
		for line := range strings.Lines(buf.String()) {
			flat := map[string]any{}
			if err := json.Unmarshal([]byte(line), &flat); err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			if ts, ok := flat["ts"]; ok {
				flat[slog.TimeKey] = ts
				delete(flat, "ts")
			}
			out = append(out, unfold(flat))
		}
		return out
	})
	if err != nil {
		t.Error(err)
	}
}

// unfold turns dotted keys into nested maps, as slogtest wants groups.
func unfold(flat map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range flat {
		m, parts := out, strings.Split(k, ".")
		for _, p := range parts[:len(parts)-1] {
			next, ok := m[p].(map[string]any)
			if !ok {
				next = map[string]any{}
				m[p] = next
			}
			m = next
		}
		m[parts[len(parts)-1]] = v
	}
	return out
}

func TestLogLines(t *testing.T) {
	f := func(format string, args []any, want string) {
		t.Helper()
		var buf bytes.Buffer
		newLogger(&buf, format, slog.LevelInfo, nil).Info("probe failed", args...)
		if !strings.Contains(buf.String(), want) {
			t.Errorf("%s: got %q, want it to contain %q", format, buf.String(), want)
		}
	}
	f("logfmt", []any{"wait", 1500 * time.Millisecond}, `msg="probe failed" wait=1.5s`)
	f("json", []any{"wait", 1500 * time.Millisecond}, `"wait":"1.5s"`)
	f("logfmt", []any{"err", errors.New("no route")}, `err="no route"`)
	f("logfmt", []any{"names", []string{"a", "b"}}, `names="[a b]"`)
	f("json", []any{"fn", func() {}, "n", 1}, `"n":1`) // an odd value loses no line
	f("logfmt", []any{"", "x", "n", 1}, `n=1`)         // nor does an empty key
	f("logfmt", []any{slog.Group("g", "k", 7)}, `g.k=7`)
	f("logfmt", nil, `caller=logging_test.go:`)
	f("logfmt", nil, `level=info`)
}

func TestLogLevel(t *testing.T) {
	var buf bytes.Buffer
	var level slog.LevelVar
	l := newLogger(&buf, "logfmt", &level, nil)
	l.Debug("hidden")
	level.Set(slog.LevelDebug)
	l.Debug("shown")
	if got := buf.String(); strings.Contains(got, "hidden") || !strings.Contains(got, "shown") {
		t.Errorf("got %q", got)
	}
}

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
	if want := "first\nlater\nlater\n"; got.String() != want || q.lost.Load() != 0 {
		t.Errorf("wrote %q, dropped %d", got.String(), q.lost.Load())
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
		if q.lost.Load() != 5 || time.Since(start) != 0 {
			t.Errorf("dropped %d lines within %s", q.lost.Load(), time.Since(start))
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
	if q.lost.Load() != 3 {
		t.Errorf("dropped %d lines, want 3", q.lost.Load())
	}
}

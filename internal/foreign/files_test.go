package foreign

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte("12345678"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	f := func(name string, limit int64, want string) {
		t.Helper()
		data, err := ReadFile(name, limit)
		checked := CheckFile(name, limit)
		if err == nil {
			if string(data) != "12345678" || want != "" || checked != nil {
				t.Errorf("%s: read %q, %v", name, data, checked)
			}
			return
		}
		if want == "" || !strings.Contains(err.Error(), want) || checked == nil || checked.Error() != err.Error() {
			t.Errorf("%s: error %q, %v, want %q", name, err, checked, want)
		}
	}
	f(name, 8, "")
	f(link, 8, "")
	f(name, 7, "larger than 7 bytes")
	f(filepath.Join(dir, "none"), 8, "no such file")
	f(dir, 8, "not a regular file")
	f(os.DevNull, 8, "not a regular file")
}

func TestInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan error)
		read := func() ([]byte, error) { return nil, <-end }
		var a Abandoned
		start := time.Now()
		_, err := inTime(t.Context(), &a, "x", read)
		if d := time.Since(start); !errors.Is(err, errHangs) || d != filePatience {
			t.Errorf("after %s: %v", d, err)
		}
		end <- nil // it does not hang in what nobody reads
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		_, err = inTime(short, &a, "x", read)
		if d := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || d != time.Second {
			t.Errorf("after %s: %v", d, err)
		}
		end <- nil
	})
}

// tripper answers requests.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A file that hangs fails the requests, holds one goroutine, and does no harm
// once it hangs no more.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end, requests := make(chan error), 0
		var checks atomic.Int64
		g := GuardFiles(tripper(func(*http.Request) (*http.Response, error) {
			requests++
			return &http.Response{Body: http.NoBody}, nil
		}), []string{"key"}, func() error { return nil }).(*fileGuard)
		g.read = func(string, int64) ([]byte, error) {
			checks.Add(1)
			return nil, <-end
		}
		ask := func(want error, after time.Duration) {
			t.Helper()
			body := &closedBody{Reader: strings.NewReader("x")}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://h", body)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			resp, err := g.RoundTrip(r)
			if err == nil {
				resp.Body.Close()
			}
			if d := time.Since(start); !errors.Is(err, want) || d != after || want != nil && !body.closed {
				t.Errorf("after %s: %v, want %v after %s", d, err, want, after)
			}
		}
		ask(errHangs, filePatience)
		ask(errStillHangs, 0)
		ask(errStillHangs, 0)
		if checks.Load() != 1 || requests != 0 {
			t.Errorf("%d checks, %d requests", checks.Load(), requests)
		}
		end <- nil
		synctest.Wait()
		go func() { end <- nil }()
		ask(nil, 0)
		gone := errors.New("gone")
		go func() { end <- gone }()
		ask(gone, 0)
		if checks.Load() != 3 || requests != 1 {
			t.Errorf("%d checks, %d requests", checks.Load(), requests)
		}
	})
}

// closedBody reports whether it was closed.
type closedBody struct {
	io.Reader
	closed bool
}

func (b *closedBody) Close() error {
	b.closed = true
	return nil
}

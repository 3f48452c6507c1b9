// Package files reads files that a configuration names. A pipe without a writer, an
// endless device, or a file of a server that does not answer does not block it for
// long.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"
)

// patience limits each reading of a file.
const patience = 3 * time.Second

var (
	errNotRegular = errors.New("not a regular file")
	errHangs      = fmt.Errorf("not read within %s", patience)
	errStillHangs = errors.New("an earlier read of the files still hangs")
)

// Read returns the content of a regular file of at most limit bytes. An error is
// an *fs.PathError. A reading that hangs goes on in the background.
func Read(name string, limit int64) ([]byte, error) {
	read := make(chan []byte, 1)
	err := inTime(name, func() error {
		f, err := open(name, limit)
		if err != nil {
			return err
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, limit))
		read <- data
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-read, nil
}

// Check returns the error that Read would return.
func Check(name string, limit int64) error {
	return inTime(name, func() error { return check(name, limit) })
}

// check reads a file to its end, however long that takes.
func check(name string, limit int64) error {
	f, err := open(name, limit)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(f, limit))
	return err
}

// inTime returns what f returns, or that f takes too long.
func inTime(name string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return &fs.PathError{Op: "read", Path: name, Err: errHangs}
	}
}

// open opens a regular file. The first look at it is for devices, where opening
// has an effect; the second is at what was opened.
func open(name string, limit int64) (*os.File, error) {
	if info, err := os.Stat(name); err == nil {
		if err := suits(info, name, limit); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = suits(info, name, limit)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func suits(info fs.FileInfo, name string, limit int64) error {
	err := errNotRegular
	if info.Mode().IsRegular() {
		if info.Size() <= limit {
			return nil
		}
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return &fs.PathError{Op: "read", Path: name, Err: err}
}

// maxBytes bounds a file with a secret or certificates.
const maxBytes = 1 << 20

// Guard returns a RoundTripper that hands each request to next once it has seen
// that the files can be read: next reads them without a limit of time. While a
// file hangs, further requests fail at once.
func Guard(next http.RoundTripper, names []string) http.RoundTripper {
	if len(names) == 0 {
		return next
	}
	return &guard{next: next, names: names, check: func(name string) error { return check(name, maxBytes) }}
}

type guard struct {
	next  http.RoundTripper
	names []string
	check func(name string) error

	mu      sync.Mutex
	hanging int // checks that took too long and still run
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, name := range g.names {
		if err := g.inTime(name); err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
	}
	return g.next.RoundTrip(r)
}

// CloseIdleConnections closes those of the next RoundTripper.
func (g *guard) CloseIdleConnections() {
	if c, ok := g.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// inTime checks a file, unless an earlier check hangs.
func (g *guard) inTime(name string) error {
	g.mu.Lock()
	hangs := g.hanging > 0
	g.mu.Unlock()
	if hangs {
		return &fs.PathError{Op: "read", Path: name, Err: errStillHangs}
	}
	var ended, late bool // under the lock
	err := inTime(name, func() error {
		err := g.check(name)
		g.mu.Lock()
		defer g.mu.Unlock()
		if ended = true; late {
			g.hanging--
		}
		return err
	})
	if errors.Is(err, errHangs) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if late = !ended; late {
			g.hanging++
		}
	}
	return err
}

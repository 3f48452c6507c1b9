package files

import (
	"errors"
	"io/fs"
	"net/http"
	"sync"
)

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

package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"
)

// filePatience limits each reading of a file.
const filePatience = 3 * time.Second

var (
	errNotRegular = errors.New("not a regular file")
	errHangs      = fmt.Errorf("not read within %s", filePatience)
	errStillHangs = errors.New("an earlier read of the files still hangs")
)

// ReadFile returns the content of a regular file of at most limit bytes. An error is
// an *fs.PathError. A reading that hangs goes on in the background.
func ReadFile(name string, limit int64) ([]byte, error) {
	read := make(chan []byte, 1)
	err := inTime(context.Background(), name, func() error {
		f, err := openFile(name, limit)
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

// CheckFile returns the error that ReadFile would return.
func CheckFile(name string, limit int64) error {
	return inTime(context.Background(), name, func() error { return checkFile(name, limit) })
}

func checkFile(name string, limit int64) error {
	f, err := openFile(name, limit)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(f, limit))
	return err
}

// inTime returns what f returns, or that f takes too long; with the cause when ctx ends before.
func inTime(ctx context.Context, name string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	late := time.NewTimer(filePatience)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return &fs.PathError{Op: "read", Path: name, Err: errHangs}
	case <-ctx.Done():
		return &fs.PathError{Op: "read", Path: name, Err: context.Cause(ctx)}
	}
}

// openFile opens a regular file. The first look at it is for devices, where opening
// has an effect; the second is at what was opened.
func openFile(name string, limit int64) (*os.File, error) {
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

// LargeFileError is that of a file of more bytes than are read.
type LargeFileError struct{ Limit int64 }

func (e LargeFileError) Error() string { return fmt.Sprintf("larger than %d bytes", e.Limit) }

func suits(info fs.FileInfo, name string, limit int64) error {
	err := errNotRegular
	if info.Mode().IsRegular() {
		if info.Size() <= limit {
			return nil
		}
		err = LargeFileError{limit}
	}
	return &fs.PathError{Op: "read", Path: name, Err: err}
}

// maxFileBytes bounds a file with a secret or certificates.
const maxFileBytes = 1 << 20

// FileError is that a file of this machine cannot be used. It says nothing about the other side.
type FileError struct{ Err error }

func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// GuardFiles returns a RoundTripper that hands each request to next once it has seen that the files can be read: next
// reads them without a limit of time. While a file hangs, further requests fail at once. After a request has failed,
// usable returns the error of what the files hold, such as half a certificate. An error of a file is an *FileError.
func GuardFiles(next http.RoundTripper, names []string, usable func() error) http.RoundTripper {
	if len(names) == 0 {
		return next
	}
	return &fileGuard{before: before{next}, names: names, usable: usable, check: func(name string) error { return checkFile(name, maxFileBytes) }}
}

type fileGuard struct {
	before
	names  []string
	check  func(name string) error
	usable func() error

	mu      sync.Mutex
	hanging int // checks that took too long and still run
}

func (g *fileGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, name := range g.names {
		if err := g.inTime(r.Context(), name); err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			if errors.Is(err, context.Canceled) { // by whoever asked
				return nil, err
			}
			return nil, &FileError{err}
		}
	}
	resp, err := g.next.RoundTrip(r)
	if err != nil {
		if own := g.usable(); own != nil {
			err = &FileError{own}
		}
	}
	return resp, err
}

// inTime checks a file, unless an earlier check hangs.
func (g *fileGuard) inTime(ctx context.Context, name string) error {
	g.mu.Lock()
	hangs := g.hanging > 0
	g.mu.Unlock()
	if hangs {
		return &fs.PathError{Op: "read", Path: name, Err: errStillHangs}
	}
	var ended, late bool // under the lock
	err := inTime(ctx, name, func() error {
		err := g.check(name)
		g.mu.Lock()
		defer g.mu.Unlock()
		if ended = true; late {
			g.hanging--
		}
		return err
	})
	if errors.Is(err, errHangs) || ctx.Err() != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		if late = !ended; late {
			g.hanging++
		}
	}
	return err
}

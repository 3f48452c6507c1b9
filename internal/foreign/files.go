package foreign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"syscall"
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
	return inTime(context.Background(), new(Abandoned), name, func() ([]byte, error) { return readFile(name, limit) })
}

// CheckFile returns the error that ReadFile would return.
func CheckFile(name string, limit int64) error {
	_, err := ReadFile(name, limit)
	return err
}

func readFile(name string, limit int64) ([]byte, error) {
	f, err := openFile(name, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Start(f, limit)
}

// inTime returns what read returns, or that it takes too long; with the cause when ctx ends before.
func inTime(ctx context.Context, a *Abandoned, name string, read func() ([]byte, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, filePatience, errHangs)
	defer cancel()
	data, err := Await(ctx, a, read, nil)
	if err != nil && ctx.Err() != nil {
		err = &fs.PathError{Op: "read", Path: name, Err: context.Cause(ctx)}
	}
	return data, err
}

// openFile opens a regular file. It looks before, as opening a device has an effect, and at what was opened.
func openFile(name string, limit int64) (*os.File, error) {
	if info, err := os.Stat(name); err == nil {
		if err := suits(info, name, limit); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // so that of a pipe without a writer returns
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

// ErrLargeFile is a file of more bytes than are read.
var ErrLargeFile = errors.New("larger")

func suits(info fs.FileInfo, name string, limit int64) error {
	err := errNotRegular
	if info.Mode().IsRegular() {
		if info.Size() <= limit {
			return nil
		}
		err = fmt.Errorf("%w than %d bytes", ErrLargeFile, limit)
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
	return &fileGuard{before: before{next}, names: names, usable: usable, read: readFile}
}

type fileGuard struct {
	before
	names     []string
	read      func(name string, limit int64) ([]byte, error)
	abandoned Abandoned // readings
	usable    func() error
}

func (g *fileGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, name := range g.names {
		if err := g.check(r.Context(), name); err != nil {
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

// check reads a file, unless an earlier reading hangs.
func (g *fileGuard) check(ctx context.Context, name string) error {
	if g.abandoned.hang.Load() > 0 {
		return &fs.PathError{Op: "read", Path: name, Err: errStillHangs}
	}
	_, err := inTime(ctx, &g.abandoned, name, func() ([]byte, error) { return g.read(name, maxFileBytes) })
	return err
}

// Package files reads files of a configuration, which may be something else than
// was meant: a pipe that nobody writes to, a device without an end, a file of a
// server that does not answer. None of them blocks for long.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

//go:build unix

package amd

import (
	"errors"
	"io/fs"
	"syscall"
)

// readFile reads a file of sysfs by one system call. os.ReadFile waits without end for
// drivers that answer EAGAIN, as files of sysfs can be polled.
func readFile(name string) ([]byte, error) {
	var fd int
	err := again(func() (err error) {
		fd, err = syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = syscall.Close(fd) }()
	data, n := make([]byte, maxFile), 0
	if err := again(func() (err error) { n, err = syscall.Read(fd, data); return err }); err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data[:n], nil
}

// again calls f until no signal interrupts it.
func again(f func() error) error {
	for {
		if err := f(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

package amd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/inference-exporter/inference_exporter/gpu"
)

// maxFile bounds a file of sysfs: one page of memory, of which gpu_metrics is a part.
const maxFile = 4096

// directory reads the files of one directory of sysfs and keeps why one could not be read.
type directory struct {
	path string
	// asking is called before a file is read, which may hang.
	asking func(name string)
	// failed are the errors of files that exist, by name. A driver that resets the GPU or
	// lets it sleep refuses to answer for a while.
	failed map[string]error
	read   int // how many files were read
}

// bytes returns the content of a file; nil if there is none, or it has no answer.
func (d *directory) bytes(name string) []byte {
	d.asking(name)
	data, err := readFile(filepath.Join(d.path, name))
	switch {
	case err == nil:
		d.read++
		return data
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.EINVAL):
	default:
		d.failed[name] = err
	}
	return nil
}

// text returns the content of a file on one line, without spaces around it.
func (d *directory) text(name string) string {
	return strings.TrimSpace(strings.TrimRight(string(d.bytes(name)), "\x00"))
}

// number returns a decimal number. It is not ok where there is none.
func (d *directory) number(name string) (float64, bool) {
	v, err := strconv.ParseUint(d.text(name), 10, 64)
	return float64(v), err == nil
}

// names returns what a pattern matches in the directory, without its path.
func (d *directory) names(pattern string) []string {
	matches, _ := filepath.Glob(filepath.Join(d.path, pattern)) // the pattern is well-formed
	for i, m := range matches {
		matches[i], _ = filepath.Rel(d.path, m)
	}
	return matches
}

// link returns the last part of what a symbolic link points to; "" if there is none.
func link(path string) string {
	target, err := os.Readlink(path)
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// codeOf returns the code of why a file was not read.
func codeOf(err error) gpu.Code {
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EAGAIN):
		return gpu.CodeNoData // the GPU is reset, or sleeps
	case errors.Is(err, fs.ErrPermission):
		return gpu.CodeNoPermission
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EIO), errors.Is(err, syscall.ENXIO):
		return gpu.CodeLost
	case errors.Is(err, syscall.ETIMEDOUT):
		return gpu.CodeTimeout
	}
	return gpu.CodeUnknown
}

package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Error is one mistake in a configuration.
type Error struct {
	// File is the name of the file as it was given.
	File string
	// Line counts from 1; 0 is unknown.
	Line int
	// Path names the value, such as endpoints[2].modules[0]; "" is the file.
	Path string
	// Msg says what is wrong. It never holds a secret.
	Msg string
}

// Error returns "file:line: path: message", without the parts that are unknown.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		b.WriteString(":" + strconv.Itoa(e.Line))
	}
	if e.Path != "" {
		b.WriteString(": " + e.Path)
	}
	return b.String() + ": " + e.Msg
}

// path names a value in the file.
type path string

// key is the path of the value under key k.
func (p path) key(k string) path {
	switch {
	case !isPlain(k):
		return p + "[" + path(quote(k)) + "]"
	case p == "":
		return path(k)
	}
	return p + "." + path(k)
}

// index is the path of item i of the list p.
func (p path) index(i int) path { return p + "[" + path(strconv.Itoa(i)) + "]" }

// Key returns the path of the value under key k of the mapping at a path, as an
// Error names it.
func Key(at, k string) string { return string(path(at).key(k)) }

// isPlain tells whether k stands in a path without quotes: quoting the others
// keeps paths unambiguous.
func isPlain(k string) bool {
	for _, c := range k {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return k != ""
}

// maxQuoted bounds what a message repeats of the file, in bytes; it is longer
// than any valid name, so that quoted names stay distinct.
const maxQuoted = 160

func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(s[:maxQuoted]) + "..."
	}
	return strconv.Quote(s)
}

// report collects the mistakes of one file and knows where its values stand.
type report struct {
	file   string
	lines  map[path]int // the line of each value that is written
	failed map[path]bool
	hidden map[path]path // those that messages do not repeat; see hide
	errs   []*Error
}

func newReport(file string) *report {
	return &report{file: file, lines: map[path]int{}, failed: map[path]bool{}, hidden: map[path]path{}}
}

// written tells whether the file gives p a value of the right type. What is
// not written gets its default; so does what is written wrongly, so that one
// mistake does not cause a second message elsewhere.
func (r *report) written(p path) bool {
	_, ok := r.lines[p]
	return ok && !r.failed[p]
}

// writtenUnder tells whether the file gives p one of these keys, be it wrongly.
func (r *report) writtenUnder(p path, keys map[string][]int) bool {
	for key := range keys {
		if _, ok := r.lines[p.key(key)]; ok {
			return true
		}
	}
	return false
}

// failedUnder tells whether p, or a value in it, has a mistake.
func (r *report) failedUnder(p path) bool {
	for at := range r.failed {
		if at.isUnder(p) {
			return true
		}
	}
	return false
}

// errorf reports a mistake at p; only the first one of a value counts.
func (r *report) errorf(p path, format string, args ...any) {
	if !r.failed[p] {
		r.errorAt(r.line(p), p, format, args...)
	}
}

// errorAt reports a mistake of p that stands on another line than p itself.
func (r *report) errorAt(line int, p path, format string, args ...any) {
	r.failed[p] = true
	r.errs = append(r.errs, &Error{File: r.file, Line: line, Path: string(r.shown(p)), Msg: fmt.Sprintf(format, args...)})
}

// line is where p stands, or what contains it where p is not written.
func (r *report) line(p path) int {
	for {
		if line, ok := r.lines[p]; ok {
			return line
		}
		i := strings.LastIndexAny(string(p), ".[")
		if i < 0 {
			return r.lines[""]
		}
		p = p[:i]
	}
}

// err joins the mistakes in the order of the file; nil without any.
func (r *report) err() error {
	slices.SortStableFunc(r.errs, func(a, b *Error) int { return a.Line - b.Line })
	errs := make([]error, len(r.errs))
	for i, e := range r.errs {
		errs[i] = e
	}
	return errors.Join(errs...)
}

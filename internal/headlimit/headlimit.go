// Package headlimit bounds the head of an HTTP reply: status line, headers, and
// what precedes them. net/http reads up to 10 MiB of it, and needs some 14 times
// that for the headers of a server that means harm.
package headlimit

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Max is the longest head, in bytes. Servers and proxies in use send at most 16
// to 32 KiB.
const Max = 64 << 10

// ErrTooLong is a head of more than Max bytes.
var ErrTooLong = errors.New("reply too large: headers")

// Limit counts what a connection reads of the head of a reply. The zero value
// counts nothing. It is safe for concurrent use.
type Limit struct{ left atomic.Int64 } // 0: nothing is counted

// Begin starts to count: a request is about to be sent.
func (l *Limit) Begin() { l.left.Store(Max) }

// End stops to count: the head is read.
func (l *Limit) End() { l.left.Store(0) }

// Read takes account of n bytes that were read. The error ends the connection.
func (l *Limit) Read(n int) error {
	if l.left.Load() == 0 || n <= 0 {
		return nil
	}
	if l.left.Add(-int64(n)) > 0 {
		return nil
	}
	l.left.Store(1) // so that every later byte is too much as well
	return fmt.Errorf("%w over %d bytes", ErrTooLong, Max)
}

//go:build unix

package foreign

import "syscall"

// nonBlocking makes the opening of a pipe without a writer return.
const nonBlocking = syscall.O_NONBLOCK

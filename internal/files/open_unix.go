//go:build unix

package files

import "syscall"

// nonBlocking lets a pipe be opened to which nobody writes.
const nonBlocking = syscall.O_NONBLOCK

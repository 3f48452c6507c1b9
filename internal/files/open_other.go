//go:build !unix

package files

// nonBlocking is not needed: no file of a folder is a pipe.
const nonBlocking = 0

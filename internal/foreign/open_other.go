//go:build !unix

package foreign

// nonBlocking is not needed: no file of a folder is a pipe.
const nonBlocking = 0

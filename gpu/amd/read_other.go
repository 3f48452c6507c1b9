//go:build !unix

package amd

import "os"

// readFile has nothing to read where there is no sysfs.
func readFile(name string) ([]byte, error) { return os.ReadFile(name) }

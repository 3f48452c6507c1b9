// Package asset decodes the YAML files that are part of the program.
package asset

import (
	"bytes"
	"sync"

	"gopkg.in/yaml.v3"
)

// Decode decodes a file of the program. It panics where it cannot, as for a key that is not known:
// the files are constant, and tests read each.
func Decode(name string, file []byte, into any) {
	d := yaml.NewDecoder(bytes.NewReader(file))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		panic("decode " + name + ": " + err.Error())
	}
}

// Once returns a function that decodes a file of the program when it is first called, as Decode does.
func Once[T any](name string, file []byte) func() T {
	return sync.OnceValue(func() (v T) {
		Decode(name, file, &v)
		return v
	})
}

//go:build linux && cgo

package nvmlsymbols

// #cgo LDFLAGS: -ldl
import "C"

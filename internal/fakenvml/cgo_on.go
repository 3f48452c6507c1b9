//go:build linux && cgo

package fakenvml

const cgo = true

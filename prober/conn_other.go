//go:build !linux

package prober

import (
	"io"
	"net"
	"syscall"
)

// enableStamps does nothing: only Linux stamps TCP segments for the reader.
func enableStamps(_, _ string, _ syscall.RawConn) error { return nil }

// StampsArrivals reports whether the kernel stamps what sockets receive.
func StampsArrivals() bool { return false }

func freeDescriptors() (n int, ok bool) { return 0, false }

func keepStampsOn() io.Closer { return nil }

func newReceiver(net.Conn) receiver { return nil }

package prober

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// enableStamps asks the kernel to stamp what the socket receives. It needs no
// privilege. A kernel or sandbox that refuses leaves the process clock.
func enableStamps(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
}

// StampsArrivals reports whether the kernel stamps what sockets receive, so that it does not matter how late that is read.
func StampsArrivals() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) == nil
}

// keepStampsOn opens the idle socket that keeps receive stamps switched on.
func keepStampsOn() io.Closer {
	lc := net.ListenConfig{Control: enableStamps}
	c, err := lc.ListenPacket(context.Background(), "udp", "127.0.0.1:0")
	if err != nil {
		return nil
	}
	return c
}

// freeDescriptors returns how many more descriptors this process may have; not ok is not known.
func freeDescriptors() (n int, ok bool) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	used, err := os.ReadDir("/proc/self/fd")
	return int(min(limit.Cur, math.MaxInt32)) - len(used), err == nil
}

// stampReceiver reads a TCP socket with recvmsg, whose control message carries the receive stamp. Its buffers
// live as long as the connection, so that a read allocates nothing.
type stampReceiver struct {
	raw  syscall.RawConn
	step func(fd uintptr) bool

	message  unix.Msghdr
	data     unix.Iovec
	control  [128]byte
	n        int
	stamp    int64
	calledAt time.Time // before the latest system call
	empty    time.Time // the socket held nothing
	err      error
	info     unix.TCPInfo
}

func newReceiver(c net.Conn) receiver {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	r := &stampReceiver{raw: raw, empty: time.Now()} // the server has not been asked for anything
	r.step = r.recvmsg
	return r
}

// receive blocks until there is data, the end or a deadline, as Read does.
func (r *stampReceiver) receive(b []byte) (int, int64, time.Time, error) {
	if len(b) == 0 {
		return 0, 0, time.Time{}, nil
	}
	r.data.Base = &b[0]
	r.data.SetLen(len(b))
	err := r.raw.Read(r.step)
	r.data.Base = nil
	switch {
	case err != nil:
		return 0, 0, time.Time{}, err
	case r.err != nil:
		return 0, 0, time.Time{}, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("recvmsg", r.err)}
	case r.n == 0:
		return 0, 0, time.Time{}, io.EOF
	}
	empty := r.empty
	if r.n < len(b) { // it took everything
		r.empty = r.calledAt
	}
	return r.n, r.stamp, empty, nil
}

// tcpInfoSize is up to the last field of TCP_INFO that is read (Linux 4.6).
const tcpInfoSize = uint32(unsafe.Offsetof(unix.TCPInfo{}.Data_segs_in) + unsafe.Sizeof(unix.TCPInfo{}.Data_segs_in))

// progress implements receiver. The system call is made without notice to the scheduler, as in recvmsg.
func (r *stampReceiver) progress() (p progress, ok bool) {
	size := uint32(unix.SizeofTCPInfo)
	err := r.raw.Control(func(fd uintptr) {
		errno := getOption(fd, unix.IPPROTO_TCP, unix.TCP_INFO, unsafe.Pointer(&r.info), &size)
		p = progress{r.info.Data_segs_in, r.info.Bytes_received, int(r.info.Advmss), r.info.Total_retrans}
		ok = errno == 0 && size >= tcpInfoSize
	})
	return p, ok && err == nil
}

// getOption is getsockopt without notice to the scheduler.
func getOption(fd uintptr, level, name int, value unsafe.Pointer, size *uint32) syscall.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, fd, uintptr(level), uintptr(name),
		uintptr(value), uintptr(unsafe.Pointer(size)), 0)
	return errno
}

// glance implements receiver. What received data takes of the memory is known from Linux 4.12 on.
func (r *stampReceiver) glance() (g glance, received uint64, ok bool) {
	p, ok := r.progress()
	if !ok {
		return glance{}, 0, false
	}
	i := &r.info
	g = glance{
		out: i.Segs_out, data: i.Data_segs_in, acks: i.Segs_in - i.Data_segs_in, retransmits: i.Total_retrans, unacked: i.Unacked, unanswered: int(i.Probes),
		heard: time.Duration(min(i.Last_ack_recv, i.Last_data_recv)) * time.Millisecond,
		rto:   time.Duration(i.Rto) * time.Microsecond, rtt: time.Duration(i.Rtt) * time.Microsecond,
	}
	err := r.raw.Control(func(fd uintptr) {
		memory, size := [unix.SizeofTCPInfo / 4]uint32{}, uint32(unix.SizeofTCPInfo)
		if getOption(fd, unix.SOL_SOCKET, unix.SO_MEMINFO, unsafe.Pointer(&memory), &size) == 0 {
			g.held = memory[0] > 0 // SK_MEMINFO_RMEM_ALLOC
		}
	})
	return g, p.bytes, err == nil
}

// keepAliveProbes is how many keepalives may stay without an answer until the kernel ends the connection: more than are
// ever sent.
const keepAliveProbes = 127

// keepAlive implements receiver. What the kernel refuses is not sent, which is seen.
func (r *stampReceiver) keepAlive(on bool) {
	_ = r.raw.Control(func(fd uintptr) {
		set := func(level, name, value int) { _ = unix.SetsockoptInt(int(fd), level, name, value) }
		if !on {
			set(unix.SOL_SOCKET, unix.SO_KEEPALIVE, 0)
			return
		}
		set(unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAliveProbes)
		set(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 1)
		set(unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
		set(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 1) // last: this has it begin at once
	})
}

// recvmsg is one attempt; false makes the runtime wait until the socket is readable. The wrapper of x/sys
// allocates for the sender's address. The call never blocks, so it is made without notice to the scheduler,
// which would wake the runtime's monitor thread where nothing else runs: that takes more time than the call.
func (r *stampReceiver) recvmsg(fd uintptr) bool {
	r.message = unix.Msghdr{Iov: &r.data, Control: &r.control[0]}
	r.message.SetIovlen(1)
	r.message.SetControllen(len(r.control))
	for {
		r.calledAt = time.Now()
		n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.message)), unix.MSG_DONTWAIT)
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			r.empty = r.calledAt
			return false
		case 0:
			r.n, r.err, r.stamp = int(n), nil, parseStamp(r.control[:r.message.Controllen])
		default:
			r.n, r.err, r.stamp = 0, errno, 0
		}
		return true
	}
}

// parseStamp returns the receive stamp of a control message in nanoseconds of wall time; 0 without one.
func parseStamp(b []byte) int64 {
	for len(b) >= unix.SizeofCmsghdr {
		h, data, rest, err := unix.ParseOneSocketControlMessage(b)
		if err != nil {
			return 0
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS {
			return timespecNano(data)
		}
		b = rest
	}
	return 0
}

// timespecNano reads a struct timespec, whose fields are as wide as the kernel's long.
func timespecNano(b []byte) int64 {
	switch len(b) {
	case 16:
		return int64(binary.NativeEndian.Uint64(b))*1e9 + int64(binary.NativeEndian.Uint64(b[8:]))
	case 8:
		return int64(binary.NativeEndian.Uint32(b))*1e9 + int64(binary.NativeEndian.Uint32(b[4:]))
	}
	return 0
}

package hostile

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// host is a network namespace with one address, on a thread of its own, as a namespace is that of a thread.
type host struct {
	address string
	link    *os.File
	work    chan func()
}

// newHost returns a host; the test is skipped where this process may make none. Its thread ends with the test.
func newHost(t *testing.T, address string) *host {
	t.Helper()
	h := &host{address: address, work: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread, whose namespace is another, ends with the goroutine
		made <- h.join()
		for f := range h.work {
			f()
		}
	}()
	t.Cleanup(func() { close(h.work) })
	if err := <-made; err != nil {
		t.Skipf("no network namespace with a TUN device, which takes root and /dev/net/tun: %v", err)
	}
	t.Cleanup(func() { h.link.Close() })
	return h
}

func (h *host) join() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	request, err := unix.NewIfreq("path")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	h.link = os.NewFile(uintptr(fd), "path")
	for _, args := range [][]string{{"address", "add", h.address + "/24", "dev", "path"}, {"link", "set", "path", "up"}} {
		if err := exec.Command("ip", args...).Run(); err != nil {
			return errors.Join(err, h.link.Close())
		}
	}
	return nil
}

// start starts a process on the host.
func (h *host) start(cmd *exec.Cmd) error {
	started := make(chan error)
	h.work <- func() { started <- cmd.Start() }
	return <-started
}

// path is what becomes of the packets from and to a port of a server: each is lost with a probability, or late.
type path struct {
	mu    sync.Mutex
	loss  float64
	delay time.Duration
	after time.Time // of the latest packet, as none overtakes another
}

func (p *path) set(loss float64, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loss, p.delay = loss, delay
}

// network carries packets between two hosts.
type network struct {
	mu    sync.Mutex
	paths map[uint16]*[2]path // there and back, by the server's port
}

// join carries what the hosts send each other until their links are closed.
func (n *network) join(client, server *host) {
	go n.carry(client.link, server.link, 0)
	go n.carry(server.link, client.link, 1)
}

func (n *network) path(port uint16) *[2]path {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paths[port] == nil {
		n.paths[port] = new([2]path)
	}
	return n.paths[port]
}

// set makes both ways of a path lose a share of the packets and delay the others.
func (n *network) set(port uint16, loss float64, delay time.Duration) {
	for i := range n.path(port) {
		n.path(port)[i].set(loss, delay/2)
	}
}

func (n *network) carry(from, to *os.File, way int) {
	for {
		packet := make([]byte, 64<<10)
		size, err := from.Read(packet)
		if err != nil {
			return
		}
		packet = packet[:size]
		if size < 40 || packet[0]>>4 != 4 || packet[9] != unix.IPPROTO_TCP {
			continue
		}
		tcp := packet[int(packet[0]&15)*4:]
		p := &n.path(binary.BigEndian.Uint16(tcp[2*(1-way):]))[way]
		p.mu.Lock()
		lost := rand.Float64() < p.loss
		due := time.Now().Add(p.delay)
		if due.Before(p.after) {
			due = p.after.Add(time.Microsecond)
		}
		if !lost {
			p.after = due
		}
		p.mu.Unlock()
		switch wait := time.Until(due); {
		case lost:
		case wait <= 0:
			_, _ = to.Write(packet)
		default:
			time.AfterFunc(wait, func() { _, _ = to.Write(packet) })
		}
	}
}

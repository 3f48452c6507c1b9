package prober

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// dialPair returns our end of a connection and the other end.
func dialPair(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	d := NewDialer()
	t.Cleanup(func() { d.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	return c.(*conn), peer
}

// A stamp lies between the peer's write and the return of our read.
func TestKernelStamps(t *testing.T) {
	c, peer := dialPair(t)
	buf := make([]byte, 64)
	// The kernel switches stamps on a moment after the first socket asked.
	for c.past().last.kernel == 0 {
		if _, err := peer.Write([]byte("token")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(buf); err != nil {
			t.Fatal(err)
		}
	}
	before := c.past().reads
	for i := range 20 {
		sent := time.Now().UnixNano()
		if _, err := peer.Write([]byte("token")); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(buf)
		if err != nil || string(buf[:n]) != "token" {
			t.Fatalf("read %q: %v", buf[:n], err)
		}
		past := c.past()
		got, reads := past.last, past.reads
		if got.kernel == 0 {
			t.Fatalf("read %d has no kernel stamp", i)
		}
		if got.kernel < sent || got.kernel > got.process.UnixNano() {
			t.Errorf("stamp %d not within [%d, %d]", got.kernel, sent, got.process.UnixNano())
		}
		if reads != before+i+1 {
			t.Errorf("%d reads, want %d", reads, before+i+1)
		}
	}
}

func TestReadEnds(t *testing.T) {
	buf := make([]byte, 8)

	c, peer := dialPair(t)
	peer.Close()
	if _, err := c.Read(buf); !errors.Is(err, io.EOF) || !c.past().cut {
		t.Errorf("peer closed: %v, cut %t", err, c.past().cut)
	}

	c, peer = dialPair(t)
	peer.(*net.TCPConn).SetLinger(0)
	peer.Close()
	if _, err := c.Read(buf); !isCut(err) || !c.past().cut {
		t.Errorf("peer reset: %v, cut %t", err, c.past().cut)
	}

	c, _ = dialPair(t)
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := c.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) || c.past().cut {
		t.Errorf("deadline: %v, cut %t", err, c.past().cut)
	}

	c, _ = dialPair(t)
	c.Close()
	if _, err := c.Read(buf); err == nil || c.past().cut {
		t.Errorf("closed by us: %v, cut %t", err, c.past().cut)
	}
}

func TestParseStamp(t *testing.T) {
	if got := parseStamp([]byte{1, 2, 3}); got != 0 {
		t.Errorf("short control message: %d, want 0", got)
	}
	if got := parseStamp(make([]byte, 64)); got != 0 {
		t.Errorf("zero control message: %d, want 0", got)
	}
}

// What is read before the first token has its origin: in how many segments it
// came, and since when it may have waited.
func TestOrigin(t *testing.T) {
	c, peer := dialPair(t)
	buf := make([]byte, 256)
	c.begin(false)
	write := func() {
		if _, err := peer.Write([]byte("token")); err != nil {
			t.Fatal(err)
		}
	}
	read := func(want int) {
		for n := 0; n < want; {
			m, err := c.Read(buf[:min(len(buf), want-n)])
			if err != nil {
				t.Fatal(err)
			}
			n += m
		}
	}
	write()
	c.Read(buf)
	c.takeOrigin() // the first read may find no earlier look at the socket

	before := time.Now()
	write()
	read(5)
	if o, ok := c.takeOrigin(); !ok || o.segments != 1 || !o.together() || o.empty.After(before) {
		t.Errorf("one segment: %+v, %t", o, ok)
	}
	before = time.Now()
	write()
	write()
	write()
	sent := time.Now()
	read(15)
	o, ok := c.takeOrigin()
	if !ok || o.segments != 3 || o.bytes != 15 || o.together() || o.empty.After(before) {
		t.Errorf("three segments: %+v, %t; want none received before %s", o, ok, before)
	}
	c.SetReadDeadline(sent) // a look that finds nothing
	c.Read(buf)
	c.SetReadDeadline(time.Time{})
	write()
	write()
	read(10)
	if o, ok := c.takeOrigin(); !ok || o.segments != 2 || o.together() {
		t.Errorf("two segments: %+v, %t", o, ok)
	}
	c.stopTracing()
	write()
	read(5)
	if o, ok := c.takeOrigin(); ok {
		t.Errorf("after the first token: %+v", o)
	}
}

// A read allocates nothing: at 25,000 tokens a second it would feed the
// collector, whose pauses are measurement errors.
func TestReadDoesNotAllocate(t *testing.T) {
	c, peer := dialPair(t)
	buf := make([]byte, 64)
	token := []byte("token")
	n := testing.AllocsPerRun(200, func() {
		if _, err := peer.Write(token); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(buf); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%.1f allocations for a read, want 0", n)
	}
}

// fakeKernel is a receiver whose segments of five bytes arrive when the test says.
type fakeKernel struct {
	receiver
	state  progress
	unread int
	late   int // segments that arrive between a read and the question after it
}

func (k *fakeKernel) arrive(segments int) {
	k.state.segments += uint32(segments)
	k.state.bytes += uint64(5 * segments)
	k.unread += 5 * segments
}

func (k *fakeKernel) receive(b []byte) (int, int64, time.Time, error) {
	n := min(len(b), k.unread)
	k.unread -= n
	return n, 1, time.Unix(1, 0), nil
}

func (k *fakeKernel) progress() (progress, bool) {
	k.arrive(k.late)
	k.late = 0
	return k.state, true
}

// The kernel is asked how much it has received after the read. What came in between is
// of the next read: taken for that of the read before, it would make a late read of three
// tokens one of a single packet, whose stamp is exact.
func TestOriginOfALateQuestion(t *testing.T) {
	k := &fakeKernel{state: progress{full: 1460}}
	k.arrive(1) // under TLS, a ticket of the handshake
	c := &conn{receive: k}
	buf := make([]byte, 256)
	c.Read(buf)
	c.begin(false)
	read := func(size, arrived, late int) (origin, bool) {
		k.arrive(arrived)
		k.late = late
		c.Read(buf[:size])
		return c.takeOrigin()
	}
	if o, ok := read(256, 1, 3); !ok || o.segments < 1 {
		t.Errorf("head: %+v, %t", o, ok)
	}
	if o, ok := read(256, 0, 0); !ok || o.segments < 3 || o.bytes != 15 || o.together() {
		t.Errorf("three segments that came before the question: %+v, %t", o, ok)
	}
	if o, ok := read(256, 1, 0); !ok || o.segments != 1 {
		t.Errorf("one segment after a read that left nothing: %+v, %t", o, ok)
	}
	if o, ok := read(5, 3, 0); !ok || o.segments != 3 {
		t.Errorf("a part of what is there: %+v, %t", o, ok)
	}
	if o, ok := read(256, 0, 0); !ok || o.segments < 2 || o.bytes != 10 || o.together() {
		t.Errorf("the rest of it, in two segments: %+v, %t", o, ok)
	}
	k.state.bytes = 0
	if o, ok := read(256, 1, 0); ok {
		t.Errorf("a kernel that does not count bytes: %+v", o)
	}
}

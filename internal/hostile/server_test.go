package hostile

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Behaviour is what a server does with each of its connections.
type Behaviour struct {
	// Name is unique among all behaviours.
	Name string
	// Scheme is that of the URL to ask: http or https.
	Scheme string
	// HTTP2 is on where the server negotiates HTTP/2.
	HTTP2 bool
	// Answers is on where a reply is complete and can be a success.
	Answers bool

	serve func(*conn)
}

// All returns every behaviour.
func All() []Behaviour { return slices.Concat(http1(), http2Behaviours()) }

// Named returns the behaviour of that name. It panics if there is none.
func Named(name string) Behaviour {
	all := All()
	return all[slices.IndexFunc(all, func(b Behaviour) bool { return b.Name == name })]
}

// Server is a listener on the loopback interface that behaves in one way.
type Server struct {
	// URL is its base URL.
	URL string

	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]bool // nil once the server is closed
}

// Start starts a server. It must be closed.
func Start(b Behaviour) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{URL: b.Scheme + "://" + l.Addr().String(), listener: l, open: map[net.Conn]bool{}}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if s.keep(c) {
				s.wg.Go(func() { s.serve(c, b) })
			}
		}
	})
	return s, nil
}

func (s *Server) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		_ = c.Close()
		return false
	}
	s.open[c] = true
	return true
}

func (s *Server) serve(c net.Conn, b Behaviour) {
	defer func() {
		_ = c.Close()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
	}()
	b.serve(newConn(c))
}

// Close closes the listener and all connections, and waits until they are left.
func (s *Server) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for c := range s.open {
		_ = c.Close()
	}
	s.open = nil
	s.mu.Unlock()
	s.wg.Wait()
}

// pause is what endless floods wait between two parts, so that many of them leave
// the machine some time.
const pause = 4 * time.Millisecond

// conn is a connection to a client. Its writes fail when the client is gone.
type conn struct {
	net.Conn
	r    *bufio.Reader
	left chan struct{} // closed when the client is known to be gone
}

func newConn(c net.Conn) *conn {
	return &conn{Conn: c, r: bufio.NewReader(c), left: make(chan struct{})}
}

// request reads one request, its body included. It returns false where none comes.
func (c *conn) request() bool {
	r, err := http.ReadRequest(c.r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

// say writes a text as it is.
func (c *conn) say(text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

// flood writes the text again and again until the client leaves.
func (c *conn) flood(text string) {
	for c.say(text) {
		time.Sleep(pause)
	}
}

// drip writes a text byte by byte.
func (c *conn) drip(text string, every time.Duration) {
	c.watch()
	for i := range len(text) {
		if !c.say(text[i:i+1]) || !c.sleep(every) {
			return
		}
	}
	<-c.left
}

// watch reads what the client sends, and notices its end. Nothing else may read.
func (c *conn) watch() {
	go func() {
		defer close(c.left)
		_, _ = io.Copy(io.Discard, c.r)
	}()
}

// sleep waits. It returns false when the client left; watch must have been called.
func (c *conn) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.left:
		return false
	case <-t.C:
		return true
	}
}

// wait waits until the client leaves.
func (c *conn) wait() { _, _ = io.Copy(io.Discard, c.r) }

// reset ends the connection by RST.
func (c *conn) reset() {
	tcp, ok := c.Conn.(*net.TCPConn)
	if secure, isTLS := c.Conn.(*tls.Conn); isTLS {
		tcp, ok = secure.NetConn().(*net.TCPConn)
	}
	if ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

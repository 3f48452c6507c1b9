package simulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Replica is a simulated server on an address of its own that can be dropped, as by the
// loss of its machine, and started again.
type Replica struct {
	o       Options
	address string

	mu      sync.Mutex
	server  *Server
	stop    func()    // nil while it is down
	changed time.Time // when it went up or down
}

// NewReplica starts a server on a free port of the loopback. It must be dropped in the end.
func NewReplica(o Options) (*Replica, error) {
	r := &Replica{o: o, address: "127.0.0.1:0"}
	if err := r.Start(); err != nil {
		return nil, err
	}
	return r, nil
}

// URL is where it is, also while it is down.
func (r *Replica) URL() string { return "http://" + r.address }

// Server returns the server that runs, or ran last.
func (r *Replica) Server() *Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server
}

// isUp reports whether it is up, and since when or since when not.
func (r *Replica) isUp() (bool, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stop != nil, r.changed
}

// Start starts it again as a new process does: on the same port, with nothing in its
// caches and counters.
func (r *Replica) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		return errors.New("the replica is up")
	}
	l, err := net.Listen("tcp", r.address)
	if err != nil {
		return fmt.Errorf("start a replica: %w", err)
	}
	r.address = l.Addr().String()
	server := New(r.o)
	r.server, r.changed = server, time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(ctx, l) // ends by the context
	}()
	r.stop = func() {
		server.reset() // before Serve closes the connections otherwise
		_ = l.Close()
		cancel()
		<-ended
	}
	return nil
}

// Drop ends it without a farewell: its connections are reset, what runs and waits is
// lost, and new connections are refused.
func (r *Replica) Drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop == nil {
		return
	}
	r.stop()
	r.stop, r.changed = nil, time.Now()
}

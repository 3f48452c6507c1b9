package simulator

import (
	"context"
	"net/http"
	"sync"
)

// gate is where an engine stops while it hangs.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed when the gate opens; nil while it is open
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case closed && g.opened == nil:
		g.opened = make(chan struct{})
	case !closed && g.opened != nil:
		close(g.opened)
		g.opened = nil
	}
}

// wait returns what is closed when the gate opens, or nil while it is open.
func (g *gate) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

// pass returns once the gate is open, or with ctx's error.
func (g *gate) pass(ctx context.Context) error {
	for opened := g.wait(); opened != nil; opened = g.wait() {
		select {
		case <-opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// stall waits while the gate is closed and there is work to do, and returns
// whether it waited.
func (r *replica) stall() bool {
	waited := false
	for opened := r.gate.wait(); opened != nil && r.load() > 0; opened = r.gate.wait() {
		waited = true
		select {
		case <-opened:
		case <-r.emptied:
		}
	}
	return waited
}

// Hang makes the engine hang, or go on. While it hangs no step begins or ends:
// what runs keeps its slots and its blocks, what comes waits in the queue, and
// all else is answered, health and metrics too.
func (s *Server) Hang(on bool) { s.gate.set(on) }

// hangOn is POST /simulator/hang?on=true or false.
func (s *Server) hangOn(w http.ResponseWriter, r *http.Request) {
	on := r.URL.Query().Get("on")
	if on != "true" && on != "false" {
		http.Error(w, "on must be true or false", http.StatusBadRequest)
		return
	}
	s.Hang(on == "true")
	w.WriteHeader(http.StatusNoContent)
}

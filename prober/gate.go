package prober

import (
	"sync"
	"time"
)

// gate holds the requests of a burst, each written up to its first byte on a ready connection, until all of them are.
// Then they are sent one right after the other by one goroutine: waking one for each would take longer than the
// requests may be apart. A request that fails before is not waited for, and none is for longer than the patience after
// the first.
type gate struct {
	patience time.Duration

	mu      sync.Mutex
	missing int         // requests that are neither ready nor failed
	ready   []func()    // what sends those that are
	timer   *time.Timer // runs from the first that came
	opened  time.Time   // for good; the zero time before
}

// slot is the right of one request to pass the gate, once: when it opens or, with a channel ended, some
// time after that, unless that channel is closed before.
type slot struct {
	gate    *gate
	once    sync.Once
	offset  time.Duration
	ended   <-chan struct{}
	planned time.Time // when it was to be sent; zero before, and without ended
}

// pass means that the request is ready, and returns when it is sent. One with a time of its own waits for that in its own
// goroutine, so that it delays no other; if its connection came later than planned, it is planned for then.
func (s *slot) pass(send func()) {
	sent, came := make(chan struct{}), time.Now()
	s.gate.add(func() {
		defer close(sent)
		if s.ended == nil {
			send()
		}
	})
	s.leave()
	<-sent
	if s.ended == nil {
		return
	}
	s.planned = s.gate.opened.Add(s.offset)
	if s.planned.Before(came) {
		s.planned = came
	}
	waitUntil(s.planned, s.ended)
	send()
}

// leave takes the request out of those that the others wait for.
func (s *slot) leave() { s.once.Do(s.gate.came) }

// add keeps a request until the gate opens, or sends it when it has.
func (g *gate) add(send func()) {
	g.mu.Lock()
	open := !g.opened.IsZero()
	if !open {
		g.ready = append(g.ready, send)
	}
	g.mu.Unlock()
	if open {
		send()
	}
}

// came counts a request, ready or failed. The last one opens the gate.
func (g *gate) came() {
	g.mu.Lock()
	g.missing--
	last := g.missing == 0
	if g.timer == nil {
		g.timer = time.AfterFunc(g.patience, g.release)
	}
	g.mu.Unlock()
	if last {
		g.release()
	}
}

// release opens the gate and sends what waits.
func (g *gate) release() {
	g.mu.Lock()
	waiting := g.ready
	g.ready = nil
	if g.opened.IsZero() {
		g.opened = time.Now()
	}
	if g.timer != nil {
		g.timer.Stop()
	}
	g.mu.Unlock()
	for _, send := range waiting {
		send()
	}
}

package simulator

import (
	"hash/fnv"
	"net/http"
)

// The ways by which a request finds its replica.
const (
	// LeastLoaded is to the replica with the fewest requests, of equal ones the
	// first: on an idle server always the first.
	LeastLoaded = "least-loaded"
	// RoundRobin is to each replica in turn.
	RoundRobin = "round-robin"
	// Sticky is by the value of a header: equal values meet at one replica. A
	// request without it goes to the least loaded.
	Sticky = "sticky"
)

// Routings lists the values of Options.Routing, the default first.
func Routings() []string { return []string{LeastLoaded, RoundRobin, Sticky} }

// route returns the replica that a request goes to.
func (s *Server) route(r *http.Request) *replica {
	switch s.o.Routing {
	case RoundRobin:
		return s.replicas[(s.routed.Add(1)-1)%uint64(len(s.replicas))]
	case Sticky:
		if value := r.Header.Get(s.o.StickyHeader); value != "" {
			return s.replicas[hashText(value)%uint64(len(s.replicas))]
		}
	}
	return s.leastLoaded()
}

func (s *Server) leastLoaded() *replica {
	best := s.replicas[0]
	least := best.load()
	for _, r := range s.replicas[1:] {
		if n := r.load(); n < least {
			best, least = r, n
		}
	}
	return best
}

// hashText returns a hash of texts in their order.
func hashText(texts ...string) uint64 {
	h := fnv.New64a()
	for _, t := range texts {
		_, _ = h.Write([]byte(t)) // never fails
		_, _ = h.Write([]byte{0})
	}
	return mix(h.Sum64(), 0)
}

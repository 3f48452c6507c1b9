package simulator

import (
	"net/http"
	"strconv"
)

// replicaHeader names the replica in the replies of a server that has several.
const replicaHeader = "X-Served-By"

// route returns the replica that a request with this prompt goes to.
func (s *Server) route(r *http.Request, prompt []token) *replica {
	switch s.o.Routing {
	case RoundRobin:
		return s.inTurn()
	case Random:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.replicas[s.rng.IntN(len(s.replicas))]
	case Sticky:
		if value := r.Header.Get(s.o.StickyHeader); value != "" {
			return s.replicas[hashText(value)%uint64(len(s.replicas))]
		}
		return s.inTurn()
	case PrefixAware:
		return s.warmest(prompt)
	}
	return s.leastLoaded(s.replicas)
}

// inTurn returns one replica after the other.
func (s *Server) inTurn() *replica {
	return s.replicas[(s.routed.Add(1)-1)%uint64(len(s.replicas))]
}

// name sets the header that names the replica, where there are several.
func (s *Server) name(r *replica, h http.Header) {
	if len(s.replicas) > 1 {
		h.Set(replicaHeader, "replica-"+strconv.Itoa(r.index))
	}
}

// warmest returns the replica whose cache holds most blocks of a prompt.
func (s *Server) warmest(prompt []token) *replica {
	hashes := extendHashes(nil, prompt, s.o.BlockSize)
	var best []*replica
	most := -1
	for _, r := range s.replicas {
		switch n := r.holds(hashes); {
		case n > most:
			best, most = []*replica{r}, n
		case n == most:
			best = append(best, r)
		}
	}
	return s.leastLoaded(best)
}

// holds returns how many blocks of a prompt, which hashes describe, are cached.
func (r *replica) holds(hashes []uint64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pool.match(hashes))
}

func (s *Server) leastLoaded(of []*replica) *replica {
	best := of[0]
	least := best.load()
	for _, r := range of[1:] {
		if n := r.load(); n < least {
			best, least = r, n
		}
	}
	return best
}

package web

import "sync"

// maxHung is how many targets are remembered to hang: more than have turns.
const maxHung = 4 * maxHungProbes

// hungTargets are those whose latest probe timed out. Their probes hold a turn for
// long, so that they take one of fewer first. It is safe for concurrent use.
type hungTargets struct {
	turns turns

	mu    sync.Mutex
	known map[string]struct{}
}

// has returns whether the latest probe of a target timed out.
func (h *hungTargets) has(target string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.known[target]
	return ok
}

// learn takes note of how a probe of a target ended.
func (h *hungTargets) learn(target string, timedOut bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !timedOut {
		delete(h.known, target)
	} else if len(h.known) < maxHung {
		h.known[target] = struct{}{}
	}
}

package safetext

import "sync"

// maxNames is how many names are remembered.
const maxNames = 32

// Names makes the names that a server repeats in every reply, of models and
// versions, safe to show, and looks for secrets in each of them once. It is
// safe for concurrent use.
type Names struct {
	secrets *Secrets
	limit   int

	mu   sync.Mutex
	seen map[string]string
}

// NewNames returns Names that cuts a name at limit bytes.
func NewNames(secrets *Secrets, limit int) *Names {
	return &Names{secrets: secrets, limit: limit, seen: map[string]string{}}
}

// Clean returns a name as Secrets.Line does.
func (n *Names) Clean(name string) string {
	if name == "" {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	clean, ok := n.seen[name]
	if !ok {
		if len(n.seen) >= maxNames { // a server that makes them up
			clear(n.seen)
		}
		clean = n.secrets.Line(name, n.limit)
		n.seen[name] = clean
	}
	return clean
}

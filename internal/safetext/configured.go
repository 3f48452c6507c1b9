package safetext

import "sync/atomic"

// Configured are all secrets of a configuration, which another one may replace. It
// is safe for concurrent use, except that one goroutine at a time calls Replace. A nil
// Configured holds none.
type Configured struct {
	indexed atomic.Pointer[Secrets]
	latest  []string
}

// Replace takes the secrets of a configuration that may come into force. Those of the
// one before are kept, as what is under way may still show them.
func (c *Configured) Replace(values []string) {
	c.indexed.Store(NewSecrets(values...).With(c.latest...).Indexed())
	c.latest = values
}

// Secrets returns a set that finds these secrets as they are at the time of a search,
// beside those that With adds to it. Values does not return them.
func (c *Configured) Secrets() *Secrets { return &Secrets{configured: c} }

// find returns where a text holds one of them, in no order.
func (c *Configured) find(text layer) []span {
	if c == nil {
		return nil
	}
	return c.indexed.Load().spans(text)
}

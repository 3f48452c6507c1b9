package app

import (
	"context"
	"sync"
)

// flight guards what the one run of a task in flight uses against the end of
// the task: the same job may go on with a task that replaced this one.
type flight struct {
	release func() // drops what the runs use; called once, never during a run

	mu     sync.Mutex
	cancel context.CancelFunc // ends the run in flight; nil without one
	closed bool
}

// run calls work and then, unless the task was closed meanwhile, publish,
// which is never called after close has returned.
func (f *flight) run(ctx context.Context, work func(context.Context), publish func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !f.begin(cancel) {
		return
	}
	published := false
	defer func() { f.end(publish, published) }()
	work(ctx)
	published = true
}

// begin tells whether a run may start.
func (f *flight) begin(cancel context.CancelFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.cancel = cancel
	}
	return !f.closed
}

// end publishes what a run that did not panic found.
func (f *flight) end(publish func(), found bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancel = nil
	switch {
	case f.closed:
		f.release()
	case found:
		publish()
	}
}

// close ends the task: a run in flight is canceled, and nothing more is
// published.
func (f *flight) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.cancel != nil {
		f.cancel() // end releases
		return
	}
	f.release()
}

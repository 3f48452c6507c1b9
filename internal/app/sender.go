package app

import (
	"context"
	"sync"

	promconfig "github.com/prometheus/common/config"
)

// sender runs the exporter E that the active settings S ask for, if any. Its lock also
// guards what embeds it.
type sender[S any, E interface {
	comparable
	Run(context.Context) error
}] struct {
	same func(a, b S) bool // whether two settings send the same to the same place

	mu       sync.Mutex
	settings S
	current  E               // its zero value without export
	running  context.Context // of run; nil before it
	stop     context.CancelFunc
	ended    sync.WaitGroup
}

// isActive reports whether settings change nothing.
func (s *sender[S, E]) isActive(settings S) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.same(settings, s.settings)
}

// use makes next the export for the settings, unless they are the active ones. What the
// one before still holds is sent.
func (s *sender[S, E]) use(settings S, next E) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.same(settings, s.settings) {
		return
	}
	if s.stop != nil {
		s.stop()
	}
	s.settings, s.current, s.stop = settings, next, nil
	if s.running != nil {
		s.start()
	}
}

// start runs the current exporter. The lock is held.
func (s *sender[S, E]) start() {
	if !s.isSending() {
		return
	}
	ctx, stop := context.WithCancel(s.running)
	s.stop = stop
	current := s.current
	s.ended.Go(func() { _ = current.Run(ctx) })
}

// run exports until ctx ends, and what is left soon after.
func (s *sender[S, E]) run(ctx context.Context) error {
	s.mu.Lock()
	s.running = ctx
	s.start()
	s.mu.Unlock()
	<-ctx.Done()
	s.ended.Wait()
	return nil
}

// isSending reports whether there is an export. The lock is held.
func (s *sender[S, E]) isSending() bool {
	var none E
	return s.current != none
}

// exporting reports whether there is an export.
func (s *sender[S, E]) exporting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isSending()
}

// plainHeaders returns headers as they are sent.
func plainHeaders(secrets map[string]promconfig.Secret) map[string]string {
	headers := make(map[string]string, len(secrets))
	for name, secret := range secrets {
		headers[name] = string(secret)
	}
	return headers
}

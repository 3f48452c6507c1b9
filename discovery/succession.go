package discovery

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// patience is how long a source that says nothing goes on with what the one
// before it found: two refreshes of most mechanisms. Some never say anything,
// as there is nothing to be found.
const patience = 2 * time.Minute

// succeed gives those of the sources that are new what was found by those that
// they replace, so that the endpoints of an item stay when only the place changes
// where they are looked for. Only endpoints of the same template do, as others
// may have other credentials.
func (f *Finder) succeed(cfg *config.Config, sources []*source) {
	for _, item := range cfg.Discovery {
		s := find(sources, item.Sources())
		if s.fixed || slices.Contains(f.sources, s) {
			continue
		}
		for _, before := range f.items {
			old := find(f.sources, before.Sources())
			if !slices.Contains(sources, old) && before.MakesSame(item) {
				s.before = slices.Concat(s.before, old.groups, old.before)
			}
		}
		if s.before != nil && s.leave == nil {
			s.leave = time.AfterFunc(patience, func() { f.forget(s) })
		}
	}
	for _, old := range f.sources {
		if old.leave != nil && !slices.Contains(sources, old) {
			old.leave.Stop()
		}
	}
}

// settle ends the succession of a source whose parts have all spoken, a little
// later, as the manager may be about to pass on the last of what they said.
func (f *Finder) settle(s *source) {
	if s.before != nil && !s.leaving && s.waiting() == 0 {
		s.leaving = true
		s.leave.Reset(2 * f.options.Throttle)
	}
}

// forget has a source go by its own word alone.
func (f *Finder) forget(s *source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.before = nil
	f.tell()
}

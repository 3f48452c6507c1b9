package fleet

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// maxServed bounds the names of models that are kept of an endpoint.
const maxServed = 8

// servedModel knows by which names an endpoint called its model. A gateway with several
// backends may use some in turns: only a name that is new is another model, for as long as
// it is used.
type servedModel struct {
	names []string // in the order in which they were seen
	now   string
	since time.Time // when the latest of names was new; zero for the first
	in    string    // the module of that answer
}

// note takes an answer of a module.
func (s *servedModel) note(r *result.Result, module string) {
	if r.Model == "" {
		return
	}
	s.now = r.Model
	if slices.Contains(s.names, r.Model) || len(s.names) == maxServed {
		return
	}
	s.names = append(s.names, r.Model)
	if len(s.names) > 1 {
		s.since, s.in = r.Start, module
	}
}

// changes returns the change to the name that is used now.
func (s *servedModel) changes() []explain.Change {
	if s.since.IsZero() || s.now != s.names[len(s.names)-1] {
		return nil
	}
	return []explain.Change{{At: s.since, Module: s.in, What: "model"}}
}

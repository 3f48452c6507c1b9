package prober

import (
	"slices"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// shown returns what an answer has, for the log: its text and its calls.
func (a *content) shown() string {
	all := string(a.text)
	for _, call := range a.calls.List() {
		all = strings.TrimSpace(all + " " + call.Name + "(" + call.Arguments + ")")
	}
	return all
}

// call returns the times of the pieces of a call, by the given clock; the zero value
// where there is none.
func (t *timeline) call(c result.Clock) (times result.Call) {
	for i := range t.events {
		if !t.events[i].arguments {
			continue
		}
		at := t.events[i].on(c) - t.requestStart
		if times.FirstArgument <= 0 {
			times.FirstArgument = at
		}
		times.Complete = at
	}
	return times
}

// hasArguments reports whether a frame adds to the arguments of a call.
func hasArguments(pieces []api.CallPiece) bool {
	return slices.ContainsFunc(pieces, func(p api.CallPiece) bool { return len(p.Arguments) > 0 })
}

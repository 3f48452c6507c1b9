package fleet

import (
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// A name that was never seen is another model from then on, until an earlier one is back.
func TestServedModel(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var s servedModel
	for i, step := range []struct {
		model string
		since int // minutes after noon; -1 is no change
	}{{"", -1}, {"a", -1}, {"a", -1}, {"b", 3}, {"", 3}, {"b", 3}, {"a", -1}, {"b", 3}, {"c", 8}, {"b", -1}} {
		s.note(&result.Result{Start: noon.Add(time.Duration(i) * time.Minute), Model: step.model}, "m")
		var want []explain.Change
		if step.since >= 0 {
			want = []explain.Change{{At: noon.Add(time.Duration(step.since) * time.Minute), Module: "m", What: "model"}}
		}
		if got := s.changes(); !slices.Equal(got, want) {
			t.Errorf("step %d, %q: %v, want %v", i, step.model, got, want)
		}
	}
}

// An endpoint that is up and serves a model of another name is explained by that.
func TestRenameIsExplained(t *testing.T) {
	l := newLab(t)
	l.mustApply("{name: e, url: http://127.0.0.1:9}")
	m := l.members["e"].memory
	now := time.Now()
	for i, name := range []string{"a", "a", "b", "b"} {
		r := &result.Result{Start: now.Add(time.Duration(i-4) * time.Minute), Outcome: result.Success, Model: name}
		m.keep(observe(l.members["e"].tasks[0].Target, r, false, false))
	}
	e := m.evidence(endpointState{state: health.Up, since: now.Add(-time.Hour)}, now, nil, nil)
	if got := explain.Explain(e)[0]; got.Cause != explain.ModelChanged {
		t.Errorf("got %+v", got)
	}
}

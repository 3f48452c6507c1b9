package drift

import (
	"math"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// After a restart the first answer is still the one to compare with, and what was learnt
// does not have to be learned again.
func TestDriftSurvivesARestart(t *testing.T) {
	a, b := embedded([]float32{3, 4}, []float32{0, 1}), embedded([]float32{4, 3}, []float32{0, 1})
	l := newLab()
	for range 10 {
		l.Run(a)
	}
	l.Run(b)
	l = l.NextProcess(t)
	for range 3 {
		l.Run(b)
	}
	if n := l.Last.Changes[SourceEmbedding]; n != 0 {
		t.Errorf("%d changes after the fourth answer in a row", n)
	}
	f := l.Run(b)
	if f.Changes[SourceEmbedding] != 1 {
		t.Errorf("%d changes after the fifth answer in a row, want 1", f.Changes[SourceEmbedding])
	}
	changed := f.LastChange[indexEmbedding]
	for range 10 {
		l.Run(b)
	}
	l = l.NextProcess(t)
	f = l.Run(b)
	wantDrift(t, "similarity", f.Drift.Similarity, 0.96)
	if f.Changes[SourceEmbedding] != 0 || !f.LastChange[indexEmbedding].Equal(changed) {
		t.Errorf("after the second restart %d changes, the last at %v, want %v", f.Changes[SourceEmbedding], f.LastChange[indexEmbedding], changed)
	}
	for range 5 {
		f = l.Run(a)
	}
	if f.Changes[SourceEmbedding] != 1 {
		t.Errorf("%d changes on the way back, want 1", f.Changes[SourceEmbedding])
	}
}

func TestDriftOfScoresSurvivesARestart(t *testing.T) {
	l := newLab()
	l.Run(ranked(0.9, 0.5, 0.1))
	l = l.NextProcess(t)
	f := l.Run(ranked(0.5, 0.9, 0.1))
	wantDrift(t, "order", f.Drift.Order, 1.0/3)
	if f.Watched != [8]bool{indexRerank: true} {
		t.Errorf("watched: %v", f.Watched)
	}
}

func savedDriftOf(data string) *workload.SavedTracker {
	return &workload.SavedTracker{Parts: []workload.Saved{{Part: "drift", Version: 1, Data: []byte(data)}}}
}

func TestDriftThatCannotBeRestored(t *testing.T) {
	f := func(name, data string) {
		t.Helper()
		next := newLab()
		if err := next.Tracker.Restore(savedDriftOf(data)); err == nil || !strings.Contains(err.Error(), "drift") {
			t.Errorf("%s: %v", name, err)
		}
		if next.Estimate.drift != nil {
			t.Errorf("%s is restored", name)
		}
	}
	const good = `"first":["AAAAAA=="],"learnt":10,"noise":0.01`
	f("no JSON", `x`)
	f("nothing", `{}`)
	f("no vector", `{"first":[],"learnt":10,"noise":0}`)
	f("a vector of three bytes", `{"first":["AAAA"],"learnt":10,"noise":0}`)
	f("nothing learnt", `{"first":["AAAAAA=="],"learnt":0,"noise":0}`)
	f("too much learnt", `{"first":["AAAAAA=="],"learnt":11,"noise":0}`)
	f("noise that is none", `{"first":["AAAAAA=="],"learnt":10,"noise":0.3}`)
	f("a change that was counted", `{`+good+`,"off":5}`)
	f("an empty vector of use", `{`+good+`,"usual":[""]}`)
	next := newLab()
	if err := next.Tracker.Restore(savedDriftOf(`{` + good + `}`)); err != nil {
		t.Errorf("a good one: %v", err)
	}
}

// What 8 texts of 4,096 dimensions leave fits into what is saved, also after a change.
func TestDriftOfLongVectorsIsSaved(t *testing.T) {
	long := func(first float32) [][]float32 {
		all := make([][]float32, 8)
		for i := range all {
			all[i] = make([]float32, 4096)
			for j := range all[i] {
				all[i][j] = first + float32(math.Sin(float64(i*4096+j)))
			}
		}
		return all
	}
	l := newLab()
	for range 10 {
		l.Run(embedded(long(0)...))
	}
	for range 5 {
		l.Run(embedded(long(2)...))
	}
	if f := l.NextProcess(t).Run(embedded(long(0)...)); f.Drift == nil || *f.Drift.Similarity < 0.999999 {
		t.Errorf("restored: %+v", f.Drift)
	}
}

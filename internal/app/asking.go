package app

import (
	"log/slog"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/estimate"
	"github.com/inference-exporter/inference_exporter/status"
)

// asking is what the tasks of one endpoint and module share: what their results
// tell together. It is safe for concurrent use.
type asking struct {
	id      collector.FindingsID
	tracker *estimate.Tracker
	board   *status.Board // nil where there is no status page
	logger  *slog.Logger

	mu     sync.Mutex
	series *collector.FindingsSeries // set before the first run
	last   *estimate.Findings
}

func newAsking(e *config.Endpoint, name string, m *config.Module, logger *slog.Logger) *asking {
	return &asking{
		id: collector.FindingsID{Endpoint: e.Name, Module: name, Labels: e.Labels}, tracker: newTracker(e, m), logger: logger,
	}
}

func newTracker(e *config.Endpoint, m *config.Module) *estimate.Tracker {
	return estimate.NewTracker(estimate.Options{Now: time.Now, TTFT: time.Duration(e.SLOWith(m).TTFT)})
}

// observe publishes what the results of one run add.
func (a *asking) observe(results []*result.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.tracker.Observe(results)
	a.series.Set(found)
	if found != nil {
		a.log(found)
	}
	a.last = found
}

// log tells of changes.
func (a *asking) log(found *estimate.Findings) {
	for i, source := range estimate.Sources() {
		var before uint64
		if a.last != nil && a.last.Model == found.Model {
			before = a.last.Changes[i]
		}
		if found.Changes[i] > before {
			a.logger.Warn("what should stay the same has changed", "source", string(source), "model", found.Model)
			a.note("what should stay the same has changed: " + string(source))
		}
	}
}

// note adds a line to the changes of the endpoint on the status page.
func (a *asking) note(text string) {
	if a.board != nil {
		a.board.Note(a.id.Endpoint, a.id.Module, text)
	}
}

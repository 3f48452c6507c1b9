package prober

import (
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/answers"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

// workloads are built once: every endpoint looks them up, and they are large.
var workloads = []workload.Workload{load.Lengths(), load.Bursts(), load.Interference(), drift.Workload(), answers.Workload(), loadtest.Workload()}

// Workloads lists the kinds of workload, in the order of the documentation.
func Workloads() []workload.Workload { return workloads }

// Estimates returns what draws conclusions from the results of an endpoint and a module: one
// for each of Workloads, nil for those that have none of it.
func Estimates(e *config.Endpoint, m *config.Module) []workload.Estimate {
	return stats.Map(workloads, func(w workload.Workload) workload.Estimate { return w.Estimate(e, m) })
}

// roundsOf returns the rounds of a run: one of one question, unless a workload says otherwise.
func roundsOf(m *config.Module) []workload.Round {
	for _, w := range workloads {
		if w.Rounds != nil {
			if rounds := w.Rounds(m); rounds != nil {
				return rounds
			}
		}
	}
	return []workload.Round{{}}
}

// KindOf returns what a module asks.
func KindOf(m *config.Module) *workload.Kind {
	key := m.Ask().Key
	for _, w := range workloads {
		for i := range w.Kinds {
			if w.Kinds[i].Key == key {
				return &w.Kinds[i]
			}
		}
	}
	return nil // cannot happen: TestEveryKindIsThere
}

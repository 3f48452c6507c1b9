package config

import "errors"

// Asking returns a module like m that asks a text instead of prompts of its own,
// expects nothing of the answers, and keeps them in the results. It keeps the cap of
// the answer where it has one, the timeouts, and the bursts.
func (m *Module) Asking(text string) (*Module, error) {
	if problem := textProblem(text); problem != "" {
		return nil, errors.New(problem)
	}
	own := Module{
		Interval: m.Interval, Timeout: m.Timeout, Timeouts: m.Timeouts,
		Prompt: text, Prefix: PrefixWarm, OutputTokens: m.OutputTokens,
		Concurrency: m.Concurrency, Arrivals: m.Arrivals, Connection: m.Connection,
		SLO: m.SLO, PresetSLO: m.PresetSLO, KeepAnswer: true,
	}
	if m.reference() != "" || m.TrackModel {
		own.OutputTokens = None().Modules[Interactive].OutputTokens
	}
	return &own, nil
}

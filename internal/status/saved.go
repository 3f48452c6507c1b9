package status

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// maxRestarts is how many restarts are kept.
const maxRestarts = 20

// SavedSeries is what is kept of a series over a restart. It holds names of the configuration, times, and numbers; no
// URL, no answer and no text of a server but the name of a model that changed at a step.
type SavedSeries struct {
	// From is the Unix time in seconds since when the series is kept.
	From int64 `json:"from"`
	series.Saved
	// Steps are those of the series, the latest last.
	Steps []explain.Step `json:"steps,omitempty"`
}

// Past is what is known of the probes of a series until now.
type Past struct {
	from  time.Time // since when it is kept: opened, or earlier by another process
	log   *series.Log
	steps []explain.Step // the latest last
}

// Restore returns the past that was saved, without what the clock says is still to come.
func (s *SavedSeries) Restore(now time.Time) (*Past, error) {
	log, err := s.Saved.Restore(now)
	if err != nil {
		return nil, err
	}
	return &Past{time.Unix(min(s.From, now.Unix()), 0), log, validSteps(s.Steps, now)}, nil
}

// Save sets s, whose columns are used again.
func (p *Past) Save(s *SavedSeries) {
	s.From, s.Steps = p.from.Unix(), slices.Clone(p.steps)
	p.log.Save(&s.Saved)
}

// Save is that of the past of the series.
func (p *Probes) Save(s *SavedSeries) {
	p.endpoint.mu.Lock()
	defer p.endpoint.mu.Unlock()
	p.Past.Save(s)
}

// Restarted marks a restart of the exporter: the probes before it are of an earlier
// process, and there were none while no process ran.
func (b *Board) Restarted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.restarts = stats.AppendLatest(b.restarts, b.now().Unix(), maxRestarts)
}

// Restarts returns the restarts that are kept as Unix times, the latest last.
func (b *Board) Restarts() []int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.restarts)
}

// RestoreRestarts takes the restarts that an earlier process kept.
func (b *Board) RestoreRestarts(at []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now().Unix()
	for _, t := range at[max(0, len(at)-maxRestarts):] {
		if t > 0 && t <= now {
			b.restarts = append(b.restarts, t)
		}
	}
}

// maxBesideText bounds the text of what changed beside a restored step.
const maxBesideText = 1024

// validSteps returns the steps that may be of the past, at most maxSteps.
func validSteps(all []explain.Step, now time.Time) []explain.Step {
	all = slices.DeleteFunc(all, func(s explain.Step) bool {
		tooLong := func(text string) bool { return len(text) > maxBesideText }
		return !slices.Contains(series.Metrics(), s.Metric) || s.At > stats.UnixSeconds(now) || len(s.Beside) > maxBeside || slices.ContainsFunc(s.Beside, tooLong)
	})
	return all[max(0, len(all)-maxSteps):]
}

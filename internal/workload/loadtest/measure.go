package loadtest

import "github.com/inference-exporter/inference_exporter/internal/series"

// Measure returns what a level came to in its steady state.
func Measure(rec *Recorded, _ *series.Objectives, _ Context) Level {
	return Level{Level: rec.Level}
}

// Package past makes up the past of a large fleet for a Prometheus: all series
// that some queries read, for as long as they look back.
package past

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// Series is a series to write.
type Series struct {
	Labels labels.Labels
	// Step is the time between two samples, and For how far back they go.
	Step, For time.Duration
	// Growth is how much a counter grows in a step; 0 makes a gauge around Level.
	Growth, Level float64
}

// samplesAtOnce bounds what is held before it is committed.
const samplesAtOnce = 500_000

// Write writes series that end at a time into a directory of Prometheus. It
// returns the number of samples.
func Write(ctx context.Context, dir string, all []Series, end time.Time) (n int, err error) {
	longest := time.Duration(0)
	for _, s := range all {
		longest = max(longest, s.For)
	}
	// A series may be written whole after another as long as both fit into half
	// of a block.
	w, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, (3 * longest).Milliseconds())
	if err != nil {
		return 0, fmt.Errorf("write a block: %w", err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	app, held := w.Appender(ctx), 0
	for i, s := range all {
		wrote, err := s.append(app, i, end)
		if err != nil {
			return n, errors.Join(err, app.Rollback())
		}
		n, held = n+wrote, held+wrote
		if held < samplesAtOnce {
			continue
		}
		if err := app.Commit(); err != nil {
			return n, fmt.Errorf("write samples: %w", err)
		}
		app, held = w.Appender(ctx), 0
	}
	if err := app.Commit(); err != nil {
		return n, fmt.Errorf("write samples: %w", err)
	}
	if _, err := w.Flush(ctx); err != nil {
		return n, fmt.Errorf("write a block: %w", err)
	}
	return n, nil
}

// append appends the samples of the series with a number. Numbers spread the
// times within a step.
func (s Series) append(app storage.Appender, number int, end time.Time) (int, error) {
	steps := int(s.For / s.Step)
	phase := s.Step.Milliseconds() * int64(number%97) / 97
	var ref storage.SeriesRef
	for i := range steps {
		at := end.UnixMilli() - phase - int64(steps-1-i)*s.Step.Milliseconds()
		var err error
		if ref, err = app.Append(ref, s.Labels, at, s.value(number, i)); err != nil {
			return i, fmt.Errorf("write %s: %w", s.Labels, err)
		}
	}
	return steps, nil
}

// value is that of the sample with a number. Counters grow by whole numbers, now
// more and now less; gauges move by a tenth.
func (s Series) value(number, i int) float64 {
	if s.Growth == 0 {
		return s.Level * (1 + 0.1*math.Sin(float64(i)/40+float64(number)))
	}
	return math.Floor(s.Growth * (float64(i) + 0.5*math.Sin(float64(i)/7+float64(number)) + 1))
}

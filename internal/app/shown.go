package app

import (
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/status"
)

// show puts the series of a rung on the status page; first tells that the
// endpoint's numbers are those of its first series.
func (s seriesOf) show(b *status.Board, e *config.Endpoint, m *config.Module, id result.SeriesID, first bool) {
	for i := range s {
		series := s[i].Series
		s[i].shown = b.OpenSeries(s[i].id(id), status.SeriesOptions{
			Pace:   status.Pace{Interval: time.Duration(m.Interval).Seconds(), Timeout: time.Duration(m.Timeout).Seconds()},
			SLO:    shownSLO(e, m),
			Window: func() *status.Window { return shownWindow(series) },
			First:  first && i == 0,
		})
	}
}

// shownSLO returns what is promised of a module at an endpoint; nil where its
// probes are not judged.
func shownSLO(e *config.Endpoint, m *config.Module) *status.SLO {
	if !m.Judged() {
		return nil
	}
	slo := e.SLOWith(m)
	seconds := func(d time.Duration) *float64 {
		if d == 0 {
			return nil
		}
		return new(d.Seconds())
	}
	return &status.SLO{
		Objective: slo.Objective, TTFT: seconds(time.Duration(slo.TTFT)),
		TPOT: seconds(time.Duration(slo.TPOT)), E2E: seconds(time.Duration(slo.E2E)),
	}
}

// shownWindow returns what the last hour's probes tell; nil where there were none.
func shownWindow(s *collector.Series) *status.Window {
	w := s.TTFTWindow()
	if w == nil || w.Samples == 0 {
		return nil
	}
	return (*status.Window)(w)
}

// Package users counts what users' own requests met of the objectives of an endpoint, from successive readings of its
// servers' pages, or of its gateway's where the gateway serves this endpoint alone.
package users

import (
	"encoding/json"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Reading is what users' requests showed between two readings of the pages.
type Reading struct {
	// Since and At are the two readings.
	Since, At time.Time
	// Objectives are those by which requests are counted. They are not to be changed.
	Objectives *series.Objectives
	// Counts are those of Availability, TTFT, TPOT and E2E. Fluidity is never known.
	Counts [series.NumObjectives]Count
	// Why says what changed against the hour before where requests were bad: kinds of errors, lengths of prompts. ""
	// is nothing known.
	Why string
}

// Count counts requests by an objective. Eligible 0 is none, or not known. Bad missed the objective for certain, and
// Possible are those and the ones that perhaps did: Bad <= Possible <= Eligible. They differ where the threshold is no
// bound of the server's histogram.
type Count struct {
	Eligible uint64 `json:"eligible"`
	Bad      uint64 `json:"bad"`
	Possible uint64 `json:"possibly_bad"`
}

func (c Count) plus(d Count) Count {
	return Count{c.Eligible + d.Eligible, c.Bad + d.Bad, c.Possible + d.Possible}
}

// View is what is known of users' requests, a fact of the endpoint. It is never changed once made.
type View struct {
	workload.NoFigures `json:"-"`
	// Counts are the requests since the process started, by the names of the objectives that the pages say anything of.
	Counts map[string]Count `json:"slo,omitempty"`
	// TTFT is that of the last hour.
	TTFT Window `json:"ttft_window"`
}

// Window is the time to first token of users' requests over the last hour: statistics in seconds, by their names, which
// are bounds of the servers' histograms. One that is not known, or that too few requests have, is absent.
type Window struct {
	Samples uint64             `json:"samples"`
	Seconds map[string]float64 `json:"seconds,omitempty"`
}

// MarshalJSON writes it as the field of the endpoint that it is.
func (v *View) MarshalJSON() ([]byte, error) {
	type plain View
	return json.Marshal(map[string]*plain{"users": (*plain)(v)})
}

// Fact is what is known of users' requests, with its metrics.
func Fact() workload.Fact {
	names := series.ObjectiveNames()[:series.Fluidity]
	count := func(kind string, get func(Count) uint64) workload.Metric {
		return workload.Metric{Name: "users_slo_" + kind + "_total", Values: names, Value: workload.Of(func(v *View, i int) float64 {
			c, known := v.Counts[names[i]]
			return workload.If(known, float64(get(c)))
		})}
	}
	return workload.FactOf[*View](
		count("eligible", func(c Count) uint64 { return c.Eligible }),
		count("bad", func(c Count) uint64 { return c.Bad }),
		count("possibly_bad", func(c Count) uint64 { return c.Possible }),
		workload.Metric{Name: "users_ttft_window_seconds", Values: WindowStats(), Value: workload.Of(func(v *View, i int) float64 {
			seconds, known := v.TTFT.Seconds[WindowStats()[i]]
			return workload.If(known, seconds)
		})},
		workload.One("users_ttft_window_samples", "", "", func(v *View) float64 { return float64(v.TTFT.Samples) }),
	)
}

// WindowStats lists the closed set of the statistics of a Window.
func WindowStats() []string { return []string{"p50_lower", "p50_upper", "p99_lower", "p99_upper"} }

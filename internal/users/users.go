// Package users counts what users' own requests met of the objectives of an endpoint, from successive readings of its
// servers' pages, or of its gateway's where the servers' lack it and the gateway serves this endpoint alone.
package users

import (
	"time"

	"github.com/inference-exporter/inference_exporter/internal/series"
)

// Reading is what users' requests showed between two readings of the pages.
type Reading struct {
	// Since and At are the two readings.
	Since, At time.Time
	// Counts are those of Availability, TTFT, TPOT and E2E. Fluidity is never known.
	Counts [series.NumObjectives]Count
	// Why says what changed against the hour before where requests were bad: kinds of errors, lengths of prompts. ""
	// is nothing known.
	Why string
}

// Count counts requests by an objective. Eligible 0 is none, or not known. Bad missed the objective for certain, and
// Possible are those and the ones that perhaps did: Bad <= Possible <= Eligible. They differ where the threshold is no
// bound of the server's histogram.
type Count struct{ Eligible, Bad, Possible uint64 }

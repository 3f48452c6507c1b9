package recorder

import (
	"errors"
	"fmt"
	"slices"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Explain returns why the endpoint was as it was, by the rules of this program and the latest evidence that names a cause; without such,
// by the latest by which something is wrong. It returns an error where there is no evidence, or some cannot be read.
func (r *Recording) Explain() (*explain.Report, error) {
	var best *explain.Report
	for i, entry := range slices.Backward(r.Entries) {
		if len(entry.Evidence) == 0 {
			continue
		}
		e, err := explain.Decode(entry.Evidence)
		if err != nil {
			return nil, fmt.Errorf("entries[%d]: %w", i, err)
		}
		found := &explain.Report{
			At: stats.UnixSeconds(e.At), Endpoint: r.Endpoint, State: string(e.State), Since: stats.UnixSeconds(e.Since), Findings: explain.Explain(e),
		}
		switch cause := found.Findings[0].Cause; {
		case cause != explain.Healthy && cause != explain.Unknown:
			return found, nil
		case best == nil || best.Findings[0].Cause == explain.Healthy:
			best = found
		}
	}
	if best == nil {
		return nil, errors.New("the recording has no evidence")
	}
	return best, nil
}

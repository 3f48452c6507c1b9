package prober

import (
	"fmt"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/shortage"
)

func skip(reason result.SkipReason, format string, args ...any) *result.Skip {
	return &result.Skip{Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// lacking returns a Skip where a request could not be made for a lack on this
// machine, which says nothing of the server; else nil.
func lacking(results []*result.Result) *result.Skip {
	for _, r := range results {
		if shortage.Is(r.Err) {
			why := skip(result.SkipResources, "this machine or process is short of descriptors, memory or ports: %v", r.Err)
			why.Spent = results
			return why
		}
	}
	return nil
}

// presentableSkip returns s with a text that can be shown to anyone.
func presentableSkip(s *result.Skip, secrets *safetext.Secrets) *result.Skip {
	return &result.Skip{Reason: s.Reason, Spent: s.Spent, Text: secrets.Line(s.Text, maxReason)}
}

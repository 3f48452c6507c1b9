package fleet

import (
	"github.com/inference-exporter/inference_exporter/internal/estimate"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// logIntegrity reports that more answers have a sign of corruption than usual, and that
// they no longer have.
func (f *findings) logIntegrity(before, now *estimate.Integrity) {
	if before == nil || now == nil {
		return
	}
	for i, finding := range result.Signs() {
		s := &now.Signs[i]
		switch was := before.Signs[i].IsRaised(); {
		case s.IsRaised() && !was:
			f.endpointLogger().Warn("more answers than usual have a sign of corruption", "finding", string(finding), "since", s.Since,
				"answers", s.Seen, "of", s.Looked, "usual", s.Usual)
			f.note("answers with " + finding.Description() + ": " + s.String())
		case was && !s.IsRaised():
			f.endpointLogger().Info("signs of corruption are back to their usual share of answers", "finding", string(finding))
			f.note("no more answers than usual with " + finding.Description())
		}
	}
}

// corruptions returns the signs of corruption that more answers have than usual.
func (m *memory) corruptions() []explain.Corruption {
	var all []explain.Corruption
	for _, f := range m.findings {
		f.mu.Lock()
		last := f.last
		f.mu.Unlock()
		if last == nil || last.Integrity == nil {
			continue
		}
		for i, finding := range result.Signs() {
			if s := &last.Integrity.Signs[i]; s.IsRaised() {
				all = append(all, explain.Corruption{Module: f.id.Module, What: finding.Description(), Share: s.String(), Since: s.Since})
			}
		}
	}
	return all
}

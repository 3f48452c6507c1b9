package collector

import (
	"github.com/inference-exporter/inference_exporter/internal/estimate"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// integrityFamilies are the signs of corruption in answers: none before the first one.
func integrityFamilies() []*findingsFamily {
	return []*findingsFamily{
		newFindingsFamily(Family{
			Name: "integrity_answers_total", Type: Counter,
			Help: "Answers inspected for signs of corruption. Absent before the first finding.",
		}, func(e encoder, _ *family, v *findingsValues) {
			if v.Integrity != nil {
				e.labels(v.block, v.created)
				e.counter(0, float64(v.Integrity.Answers))
			}
		}),
		newIntegrityFamily(Family{
			Name: "integrity_findings_total", Type: Counter,
			Help: "Answers with a sign of corruption: a script that the prompt does not have (foreign_script), most of the text repeated (repetition), control or replacement characters (control_character), special tokens or parts of a chat template (special_token), reasoning tags in the text (reasoning_tag), or no finish reason (no_finish_reason). Absent before the first finding of any kind.",
		}, func(e encoder, f *family, v *findingsValues) {
			e.labels(v.block, v.created)
			for _, i := range f.order {
				e.counter(i, float64(v.Integrity.Signs[i].Count))
			}
		}),
		integrityGauge("integrity_usual_ratio", "ratio",
			"Ratio of answers that usually have the sign of corruption, as learnt for the endpoint and the module. Absent before the first finding of any kind, and while fewer than 300 answers were inspected.",
			func(s *estimate.Sign) gauge { return gauge{s.Usual, s.Usual >= 0} }),
		integrityGauge("integrity_raised", "",
			"1 if more answers have the sign of corruption than usual, beyond chance, 0 otherwise. Absent where inference_probe_integrity_usual_ratio is.",
			func(s *estimate.Sign) gauge {
				if s.Since.IsZero() {
					return gauge{0, s.Usual >= 0}
				}
				return gauge{1, true}
			}),
		integrityGauge("integrity_raised_timestamp_seconds", "seconds",
			"Unix time of the first of the answers that have the sign of corruption more often than usual. Absent while inference_probe_integrity_raised is not 1.",
			func(s *estimate.Sign) gauge { return timeGauge(s.Since) }),
	}
}

// newIntegrityFamily returns a family with a series for each kind of finding.
func newIntegrityFamily(f Family, emit func(e encoder, f *family, v *findingsValues)) *findingsFamily {
	f.Labels, f.Values = []string{"finding"}, labelValues(result.Signs())
	return newFindingsFamily(f, func(e encoder, f *family, v *findingsValues) {
		if v.Integrity != nil {
			emit(e, f, v)
		}
	})
}

// integrityGauge returns a family of one gauge for each kind of finding.
func integrityGauge(name, unit, help string, get func(s *estimate.Sign) gauge) *findingsFamily {
	return newIntegrityFamily(Family{Name: name, Type: Gauge, Unit: unit, Help: help}, func(e encoder, f *family, v *findingsValues) {
		for _, i := range f.order {
			emitFinite(e, i, get(&v.Integrity.Signs[i]))
		}
	})
}

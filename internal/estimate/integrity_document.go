package estimate

import "github.com/inference-exporter/inference_exporter/internal/result"

// IntegrityDocument is Integrity in JSON.
type IntegrityDocument struct {
	Answers  uint64                       `json:"answers"`
	Findings map[result.Sign]SignDocument `json:"findings"`
}

// SignDocument is a Sign that answers have, in JSON. Since, Seen and Looked are there while
// it is raised; Since is in seconds since 1970.
type SignDocument struct {
	Answers uint64   `json:"answers"`
	Usual   *float64 `json:"usual_ratio,omitempty"`
	Since   float64  `json:"since,omitempty"`
	Seen    int      `json:"answers_since,omitempty"`
	Looked  int      `json:"inspected_since,omitempty"`
}

// newIntegrityDocument returns the document of what answers have; nil for none.
func newIntegrityDocument(g *Integrity) *IntegrityDocument {
	if g == nil {
		return nil
	}
	d := &IntegrityDocument{Answers: g.Answers, Findings: map[result.Sign]SignDocument{}}
	for i, finding := range result.Signs() {
		s := &g.Signs[i]
		if s.Count == 0 && !s.IsRaised() {
			continue
		}
		sign := SignDocument{Answers: s.Count, Seen: s.Seen, Looked: s.Looked}
		if s.Usual >= 0 {
			sign.Usual = new(s.Usual)
		}
		if s.IsRaised() {
			sign.Since = float64(s.Since.UnixNano()) / 1e9
		}
		d.Findings[finding] = sign
	}
	return d
}

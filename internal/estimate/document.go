package estimate

import "github.com/inference-exporter/inference_exporter/internal/result"

// Document is Findings in JSON. What is not known is absent.
type Document struct {
	Prefill  *IntervalDocument `json:"prefill_tokens_per_second,omitempty"`
	Fixed    *IntervalDocument `json:"ttft_fixed_seconds,omitempty"`
	HitRatio *float64          `json:"prefix_cache_hit_ratio,omitempty"`
	Benefit  *IntervalDocument `json:"prefix_benefit_seconds,omitempty"`
	Knee     int               `json:"burst_knee_concurrency,omitempty"`
	Traffic  *TrafficDocument  `json:"traffic,omitempty"`
	Turns    []TurnDocument    `json:"turns,omitempty"`
	Bursts   []BurstDocument   `json:"bursts,omitempty"`
	Logprob  *float64          `json:"reference_logprob,omitempty"`
	// LogprobShift and FirstTokenVariation are Shift, of one kind or the other.
	LogprobShift        *float64       `json:"first_token_logprob_shift,omitempty"`
	FirstTokenVariation *float64       `json:"first_token_variation_ratio,omitempty"`
	Drift               *DriftDocument `json:"drift,omitempty"`

	Changes map[Source]uint64 `json:"changes,omitempty"`

	Integrity *IntegrityDocument `json:"integrity,omitempty"`
}

// IntervalDocument is an Interval in JSON.
type IntervalDocument struct {
	Value float64 `json:"estimate"`
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

// DriftDocument is a Drift in JSON.
type DriftDocument struct {
	Similarity *float64 `json:"embedding_cosine_similarity,omitempty"`
	Order      *float64 `json:"rerank_order_correlation,omitempty"`
	Distance   *float64 `json:"reference_distance_ratio,omitempty"`
}

// BurstDocument is a Burst in JSON.
type BurstDocument struct {
	Concurrency     int     `json:"concurrency"`
	Failed          int     `json:"failed"`
	TokensPerSecond float64 `json:"output_tokens_per_second,omitempty"`
}

// TrafficDocument is a Likeness in JSON.
type TrafficDocument struct {
	Input    float64 `json:"input_distance_ratio"`
	Output   float64 `json:"output_distance_ratio"`
	Requests float64 `json:"requests"`
	Span     float64 `json:"window_seconds"`
}

// TurnDocument is a Turn in JSON.
type TurnDocument struct {
	Affinity    result.Affinity `json:"affinity"`
	Number      int             `json:"turn"`
	HitRatio    *float64        `json:"prefix_cache_hit_ratio,omitempty"`
	TTFT        *float64        `json:"ttft_seconds,omitempty"`
	SameReplica *float64        `json:"same_replica_ratio,omitempty"`
}

// NewDocument returns the document of findings, nil for none.
func NewDocument(f *Findings) *Document {
	if f == nil {
		return nil
	}
	d := &Document{HitRatio: f.HitRatio, Logprob: f.Logprob, Benefit: (*IntervalDocument)(f.Benefit), Drift: (*DriftDocument)(f.Drift), Changes: map[Source]uint64{}, Integrity: newIntegrityDocument(f.Integrity)}
	if f.Prefill != nil {
		d.Prefill, d.Fixed = (*IntervalDocument)(&f.Prefill.TokensPerSecond), (*IntervalDocument)(&f.Prefill.FixedSeconds)
	}
	if f.Knee != nil {
		d.Knee = f.Knee.Concurrency
	}
	if s := f.Shift; s != nil && s.Scored {
		d.LogprobShift = &s.Value
	} else if s != nil {
		d.FirstTokenVariation = &s.Value
	}
	for _, b := range f.Bursts {
		d.Bursts = append(d.Bursts, BurstDocument{b.Concurrency, b.Failed, b.TokensPerSecond})
	}
	if l := f.Likeness; l != nil {
		d.Traffic = &TrafficDocument{l.Input, l.Output, l.Requests, l.Span.Seconds()}
	}
	for _, t := range f.Turns {
		d.Turns = append(d.Turns, TurnDocument(t))
	}
	for i, source := range Sources() {
		if f.Changes[i] > 0 {
			d.Changes[source] = f.Changes[i]
		}
	}
	return d
}

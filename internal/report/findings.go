package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/estimate"
)

// findings says what the results tell together.
func (p *page) findings(f *estimate.Findings) {
	if f == nil {
		return
	}
	var rows []row
	add := func(label, format string, args ...any) { rows = append(rows, row{label, fmt.Sprintf(format, args...)}) }
	if f.Prefill != nil {
		add("prefill", "%s tokens/s", within(f.Prefill.TokensPerSecond, threeDigits))
		add("fixed part", "%s of TTFT do not depend on the length", within(f.Prefill.FixedSeconds, asDuration))
	}
	if f.HitRatio != nil {
		add("hit ratio", "%.1f %% of the prompt tokens asked again came from the prefix cache", *f.HitRatio*100)
	}
	if f.Benefit != nil {
		add("benefit", "first token %s earlier when asked again", within(*f.Benefit, asDuration))
	}
	if f.ColdCached > 0 {
		add("cold cached", "%d cold prompts came from the cache in part", f.ColdCached)
	}
	if f.Knee != nil {
		add("knee", "%d at once miss the objective, at %s tokens/s", f.Knee.Concurrency, threeDigits(f.Knee.TokensPerSecond))
	}
	if f.Logprob != nil {
		add("reference", "mean log-probability %.4f nats", *f.Logprob)
	}
	for i, source := range estimate.Sources() {
		if f.Changes[i] > 0 {
			add("changed", "%s, %s", strings.ReplaceAll(string(source), "_", " "), Count(int(f.Changes[i]), "time", "times"))
		}
	}
	p.section("Together", rows)
}

// within renders an estimate with the bounds that it lies between.
func within(i estimate.Interval, render func(float64) string) string {
	return fmt.Sprintf("%s (%s to %s)", render(i.Value), render(i.Lower), render(i.Upper))
}

func asDuration(seconds float64) string {
	return duration(time.Duration(seconds * float64(time.Second)))
}

// findingsDocument are findings in JSON. What is not known is absent.
type findingsDocument struct {
	Prefill  *intervalDocument          `json:"prefill_tokens_per_second,omitempty"`
	Fixed    *intervalDocument          `json:"ttft_fixed_seconds,omitempty"`
	HitRatio *float64                   `json:"prefix_cache_hit_ratio,omitempty"`
	Benefit  *intervalDocument          `json:"prefix_benefit_seconds,omitempty"`
	Knee     int                        `json:"burst_knee_concurrency,omitempty"`
	Logprob  *float64                   `json:"reference_logprob,omitempty"`
	Changes  map[estimate.Source]uint64 `json:"changes,omitempty"`
}

type intervalDocument struct {
	Estimate float64 `json:"estimate"`
	Lower    float64 `json:"lower"`
	Upper    float64 `json:"upper"`
}

func newFindingsDocument(f *estimate.Findings) *findingsDocument {
	if f == nil {
		return nil
	}
	d := &findingsDocument{HitRatio: f.HitRatio, Logprob: f.Logprob}
	if f.Prefill != nil {
		d.Prefill, d.Fixed = newIntervalDocument(&f.Prefill.TokensPerSecond), newIntervalDocument(&f.Prefill.FixedSeconds)
	}
	d.Benefit = newIntervalDocument(f.Benefit)
	if f.Knee != nil {
		d.Knee = f.Knee.Concurrency
	}
	for i, source := range estimate.Sources() {
		if f.Changes[i] > 0 {
			if d.Changes == nil {
				d.Changes = map[estimate.Source]uint64{}
			}
			d.Changes[source] = f.Changes[i]
		}
	}
	return d
}

func newIntervalDocument(i *estimate.Interval) *intervalDocument {
	if i == nil {
		return nil
	}
	return &intervalDocument{i.Value, i.Lower, i.Upper}
}

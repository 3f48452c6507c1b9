package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const baselineVersion = 1

// Baseline is what an endpoint measured like, to compare later runs with.
type Baseline struct {
	Version int `json:"version"`
	// Time is when the first run began.
	Time time.Time `json:"time"`
	// Endpoint, URL and Module say what was probed, and how.
	Endpoint string `json:"endpoint"`
	URL      string `json:"url"`
	Module   string `json:"module"`
	// Runs are the figures of each run, in order.
	Runs []Figures `json:"runs"`
}

// Write writes the baseline as JSON. Errors are those of w.
func (b Baseline) Write(w io.Writer) error {
	b.Version = baselineVersion
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(b)
}

// ReadBaseline reads what Write wrote. The error says what is wrong with the text.
func ReadBaseline(text []byte) (*Baseline, error) {
	var head struct{ Version int }
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("decode a baseline: %w", err)
	}
	if head.Version != baselineVersion {
		return nil, fmt.Errorf("baseline has version %d, want %d", head.Version, baselineVersion)
	}
	b := new(Baseline)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(b); err != nil {
		return nil, fmt.Errorf("decode a baseline: %w", err)
	}
	for i, run := range b.Runs {
		if err := run.validate(); err != nil {
			return nil, fmt.Errorf("run %d of a baseline: %w", i+1, err)
		}
	}
	return b, nil
}

func (f Figures) validate() error {
	for _, latency := range []float64{f.TTFT, f.TPOT, f.Duration} {
		if !(latency >= 0) || math.IsInf(latency, 0) {
			return errors.New("a latency is negative")
		}
	}
	if f.Requests < 1 || f.Failed < 0 || f.Failed > f.Requests || f.Judged < 0 || f.Judged > f.Requests || f.Wrong < 0 || f.Wrong > f.Judged {
		return errors.New("the request counts are inconsistent")
	}
	return nil
}

// Shuffled returns the runs in an order that is drawn. A later run paired with each in turn, none of them twice, is an
// independent pair: if the endpoint measures as it did, to swap the two changes but the sign of the difference, as in
// pairs that are probed together. What drifts between the runs and the baseline does not cancel out.
func (b *Baseline) Shuffled(seed uint64) []Figures {
	runs := slices.Clone(b.Runs)
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	return runs
}

// Figures are what one run of a module measured: one probe, or all requests of a module with several.
type Figures struct {
	// TTFT, TPOT and Duration are geometric means over the requests, in seconds; 0 where
	// not every request has one. Duration is that of requests that generate nothing.
	TTFT     float64 `json:"ttft_seconds,omitempty"`
	TPOT     float64 `json:"tpot_seconds,omitempty"`
	Duration float64 `json:"duration_seconds,omitempty"`
	// Requests were made, of which Failed did not succeed for another reason than a verdict on their answer.
	Requests int `json:"requests"`
	Failed   int `json:"failed"`
	// Judged answers were checked or inspected for corruption, of which Wrong are not right or have a sign of it.
	Judged int `json:"judged,omitempty"`
	Wrong  int `json:"wrong,omitempty"`
}

// NewFigures returns the figures of the results of one run.
func NewFigures(results []*result.Result) Figures {
	f := Figures{
		Requests: len(results),
		TTFT:     mean(results, func(r *result.Result) time.Duration { return r.Timing.TTFT }),
		TPOT:     mean(results, func(r *result.Result) time.Duration { return r.Timing.TPOT }),
		Duration: mean(results, func(r *result.Result) time.Duration {
			if r.Kind == api.Generation {
				return result.Absent
			}
			return r.Timing.RequestDuration()
		}),
	}
	for _, r := range results {
		v := r.Answer.Verdict
		if r.Outcome != result.Success && (r.Outcome != result.CheckFailed || v == "") {
			f.Failed++
		}
		if v != "" || r.Inspected {
			f.Judged++
		}
		if v != "" && !v.IsRight() || len(r.Integrity) > 0 {
			f.Wrong++
		}
	}
	return f
}

// mean returns the geometric mean of a latency of results in seconds; 0 where one has none that may be published.
func mean(results []*result.Result, latency func(*result.Result) time.Duration) float64 {
	sum := 0.0
	for _, r := range results {
		d := latency(r)
		if r.Outcome != result.Success || r.Imprecise || d <= 0 {
			return 0
		}
		sum += math.Log(d.Seconds())
	}
	return math.Exp(sum / float64(max(1, len(results))))
}

func (f Figures) of(q Quantity) (value float64, ok bool) {
	switch q {
	case TTFT:
		return f.TTFT, f.TTFT > 0
	case TPOT:
		return f.TPOT, f.TPOT > 0
	case Duration:
		return f.Duration, f.Duration > 0
	case Failures:
		return share(f.Failed, f.Requests)
	}
	return share(f.Wrong, f.Judged)
}

func share(part, of int) (value float64, ok bool) { return float64(part) / float64(max(1, of)), of > 0 }

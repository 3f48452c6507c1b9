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
)

// baselineVersion is that of the format of stored baselines.
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

// validate returns an error where figures contradict themselves.
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

// Shuffled returns the runs in an order that is drawn. A later run paired with each in
// turn, none of them twice, is an independent pair: if the endpoint measures as it did, to
// swap the two changes but the sign of the difference, as in pairs that are probed
// together. What drifts between the runs and the baseline does not cancel out.
func (b *Baseline) Shuffled(seed uint64) []Figures {
	runs := slices.Clone(b.Runs)
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	return runs
}

package drift

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Drift is how far what an endpoint made of the reference texts is from what it made
// of them at first. nil is not known.
type Drift struct {
	// Similarity is the least cosine of a text's vector and its first one; nil for
	// scores, and where the vectors have another length.
	Similarity *float64 `json:"embedding_cosine_similarity,omitempty"`
	// Order is Kendall's rank correlation (tau-b) of the scores and the first ones; nil for vectors.
	Order *float64 `json:"rerank_order_correlation,omitempty"`
	// Distance is the largest Euclidean distance of a vector, or of the list of
	// scores, from the first one, in relation to the first one's norm.
	Distance *float64 `json:"reference_distance_ratio,omitempty"`
}

// The detector of other embeddings and scores. Its constants come from measurements
// (docs/workloads.md) and from simulation (BenchmarkDrift).
const (
	driftLearn = 10 // how many answers it looks at to know the noise of an endpoint
	// driftPatience is how many answers in a row must be off: one answer of a replica
	// that is being replaced, or of a batch that rounds otherwise, is no change.
	driftPatience = 5
	// minDrift is the smallest relative distance that is a change, and noiseFactor by
	// how much it must exceed the largest while it learnt.
	minDrift, noiseFactor = 0.03, 4
	unsteady              = 0.2 // the distance from which on answers are no noise: it goes on learning
)

type drift struct {
	first  [][]float32 // what Drift compares with
	usual  [][]float32 // what changes are found by: the first since the latest one
	learnt int         // answers since usual
	noise  float64     // the largest distance from usual among those
	off    int         // latest answers in a row that are no noise
	latest *Drift
	index  int // of the source; indexEmbedding or indexRerank
	count  uint64
	last   time.Time
}

// observeDrift adds a result, if it has an answer to the reference texts.
func (e *Estimate) observeDrift(r *result.Result, now time.Time) {
	answered := r.Outcome == result.Success && len(r.Values) > 0
	switch {
	case e.drift == nil && !answered:
		return
	case e.drift == nil:
		e.drift = &drift{first: r.Values, index: indexEmbedding}
		if r.Kind == api.Rerank {
			e.drift.index = indexRerank
		}
	case !answered:
		e.drift.latest = nil
		return
	}
	e.drift.observe(r, now)
}

func (d *drift) observe(r *result.Result, now time.Time) {
	d.latest = driftOf(r.Values, d.first, r.Kind)
	if d.changed(r.Values) {
		d.count++
		d.last = now
	}
}

// changed takes an answer and reports whether the endpoint has others for good. After that it learns again.
func (d *drift) changed(values [][]float32) bool {
	distance := distanceOf(values, d.usual)
	switch {
	case d.learnt < driftLearn:
		if d.learnt++; distance > unsteady { // also the first of all
			d.relearn(values)
			return false
		}
		d.noise = max(d.noise, distance)
	case distance <= max(minDrift, noiseFactor*d.noise):
		d.off = 0
	default:
		d.off++
	}
	if d.off < driftPatience {
		return false
	}
	d.relearn(values)
	return true
}

func (d *drift) relearn(values [][]float32) {
	d.usual, d.learnt, d.noise, d.off = values, 1, 0, 0
}

func driftOf(values, first [][]float32, kind api.Kind) *Drift {
	var d Drift
	if kind == api.Rerank {
		d.Order = stats.Finite(rankCorrelation(values[0], first[0]))
	} else {
		d.Similarity = stats.Finite(similarity(values, first))
	}
	d.Distance = stats.Finite(distanceOf(values, first))
	return &d
}

// alike reports whether two answers have vectors of the same number and lengths.
func alike(a, b [][]float32) bool {
	return slices.EqualFunc(a, b, func(x, y []float32) bool { return len(x) == len(y) })
}

// similarity is the least cosine of two vectors of the same place; that with a vector of zeros is 0. NaN is not known.
func similarity(a, b [][]float32) float64 {
	if !alike(a, b) {
		return math.NaN()
	}
	least := 1.0
	for i := range a {
		var dot, aa, bb float64
		for j, x := range a[i] {
			y := float64(b[i][j])
			dot += float64(x) * y
			aa += float64(x) * float64(x)
			bb += y * y
		}
		cosine := 0.0
		if aa > 0 && bb > 0 {
			cosine = dot / math.Sqrt(aa*bb)
		}
		least = min(least, cosine) // NaN stays
	}
	return least
}

// distanceOf is the largest relative distance of an answer's vectors from those of a
// reference; infinite where they have other lengths, or the reference is zero.
func distanceOf(values, reference [][]float32) float64 {
	if !alike(values, reference) {
		return math.Inf(1)
	}
	largest := 0.0
	for i := range values {
		var apart, norm float64
		for j, x := range values[i] {
			y := float64(reference[i][j])
			apart += (float64(x) - y) * (float64(x) - y)
			norm += y * y
		}
		distance := math.Inf(1)
		if norm > 0 {
			distance = math.Sqrt(apart / norm)
		} else if apart == 0 {
			distance = 0
		}
		largest = max(largest, distance)
	}
	return largest
}

// rankCorrelation is Kendall's tau-b, which takes account of ties (Kendall 1945). NaN
// is not known: lists of other lengths, or one without any difference.
func rankCorrelation(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	var agree, ofA, ofB float64
	for i := range a {
		for j := range i {
			x, y := float64(cmp.Compare(a[i], a[j])), float64(cmp.Compare(b[i], b[j]))
			agree += x * y
			ofA += x * x
			ofB += y * y
		}
	}
	return agree / math.Sqrt(ofA*ofB)
}

type savedDrift struct {
	Rerank  bool        `json:"rerank,omitempty"`
	First   savedValues `json:"first"`
	Usual   savedValues `json:"usual,omitempty"` // nil where it is First
	Learnt  int         `json:"learnt"`
	Noise   float64     `json:"noise"`
	Off     int         `json:"off,omitempty"`
	Changed time.Time   `json:"changed,omitzero"` // when the latest change was found
}

// savedValues are vectors of 32-bit floats, little-endian.
type savedValues [][]byte

func (e *Estimate) saveDrift() any {
	d := e.drift
	if d == nil {
		return nil
	}
	j := savedDrift{Rerank: d.index == indexRerank, First: saveValues(d.first), Learnt: d.learnt, Noise: d.noise, Off: d.off, Changed: d.last}
	if &d.first[0] != &d.usual[0] {
		j.Usual = saveValues(d.usual)
	}
	return j
}

func (e *Estimate) restoreDrift(j *savedDrift) error {
	d := &drift{learnt: j.Learnt, noise: j.Noise, off: j.Off, last: j.Changed, index: indexEmbedding}
	if j.Rerank {
		d.index = indexRerank
	}
	d.first = restoreValues(j.First)
	d.usual = d.first
	if j.Usual != nil {
		d.usual = restoreValues(j.Usual)
	}
	learnt := 1 <= j.Learnt && j.Learnt <= driftLearn && 0 <= j.Off && j.Off < driftPatience && 0 <= j.Noise && j.Noise <= unsteady
	if d.first == nil || d.usual == nil || !learnt {
		return errors.New("vectors that no answers lead to")
	}
	e.drift = d
	return nil
}

func saveValues(values [][]float32) savedValues {
	all := make(savedValues, len(values))
	for i, v := range values {
		all[i], _ = binary.Append(nil, binary.LittleEndian, v) // never fails: their size is fixed
	}
	return all
}

// restoreValues returns nil where there is no vector, or one without numbers.
func restoreValues(saved savedValues) [][]float32 {
	var all [][]float32
	for _, b := range saved {
		if len(b) == 0 || len(b)%4 != 0 {
			return nil
		}
		v := make([]float32, len(b)/4)
		_, _ = binary.Decode(b, binary.LittleEndian, v) // never fails: they have this size
		all = append(all, v)
	}
	return all
}

package drift

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload/testdata/lab"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// embedded returns a probe whose reply has vectors of the reference texts.
func embedded(vectors ...[]float32) *result.Result {
	return lab.With(lab.Probe(256, ms), func(r *result.Result) { r.Kind, r.Length, r.Values = api.Embedding, 0, vectors })
}

// ranked returns a probe whose reply has scores of the reference texts.
func ranked(scores ...float32) *result.Result {
	return lab.With(embedded(scores), func(r *result.Result) { r.Kind = api.Rerank })
}

// wantDrift compares a value of Drift; NaN is not known.
func wantDrift(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if math.IsNaN(want) {
		if got != nil {
			t.Errorf("%s: %v, want none", what, *got)
		}
		return
	}
	if got == nil || math.Abs(*got-want) > 1e-7 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Cosines and distances are computed by hand: of (3,4) and (4,3) they are 24/25 and
// sqrt(2)/5.
func TestDriftOfVectors(t *testing.T) {
	unknown := math.NaN()
	f := func(name string, second *result.Result, similarity, distance float64) {
		t.Helper()
		l := newLab()
		l.Run(embedded([]float32{3, 4}, []float32{0, 1}))
		d := l.Run(second).Drift
		if d == nil {
			d = &Drift{}
		}
		wantDrift(t, name+": similarity", d.Similarity, similarity)
		wantDrift(t, name+": distance", d.Distance, distance)
		wantDrift(t, name+": order", d.Order, unknown)
	}
	f("the same", embedded([]float32{3, 4}, []float32{0, 1}), 1, 0)
	f("another direction of one", embedded([]float32{4, 3}, []float32{0, 1}), 0.96, math.Sqrt2/5)
	f("the texts in each other's place", embedded([]float32{0, 1}, []float32{3, 4}), 0.8, math.Sqrt(9+9))
	f("normalised", embedded([]float32{0.6, 0.8}, []float32{0, 1}), 1, 0.8)
	f("the reverse", embedded([]float32{-3, -4}, []float32{0, 1}), -1, 2)
	f("zeros", embedded([]float32{0, 0}, []float32{0, 1}), 0, 1)
	f("more dimensions", embedded([]float32{3, 4, 0}, []float32{0, 1, 0}), unknown, unknown)
	f("fewer vectors", embedded([]float32{3, 4}), unknown, unknown)
	f("more than a number of 32 bits holds", embedded([]float32{float32(math.Inf(1)), 4}, []float32{0, 1}), unknown, unknown)
	f("without an index of each", embedded(), unknown, unknown)
	f("a failure", lab.With(embedded([]float32{3, 4}, []float32{0, 1}), func(r *result.Result) { r.Outcome = result.HTTPError }), unknown, unknown)
}

// The rank correlation is that of scipy.stats.kendalltau, whose documentation has the
// first example.
func TestDriftOfScores(t *testing.T) {
	f := func(name string, first, second []float32, order, distance float64) {
		t.Helper()
		l := newLab()
		l.Run(ranked(first...))
		d := l.Run(ranked(second...)).Drift
		wantDrift(t, name+": order", d.Order, order)
		wantDrift(t, name+": distance", d.Distance, distance)
		wantDrift(t, name+": similarity", d.Similarity, math.NaN())
	}
	f("with ties", []float32{12, 2, 1, 12, 2}, []float32{1, 4, 7, 1, 0}, -0.47140452079103173, math.Sqrt((121+4+36+121+4)/297.0))
	f("the same", []float32{0.9, 0.5, 0.1}, []float32{0.9, 0.5, 0.1}, 1, 0)
	f("another scale in the same order", []float32{3, 2, 1}, []float32{6, 4, 2}, 1, 1)
	f("the reverse", []float32{3, 2, 1}, []float32{1, 2, 3}, -1, math.Sqrt(8.0/14))
	f("two neighbours swapped", []float32{4, 3, 2, 1}, []float32{4, 3, 1, 2}, 4.0/6, math.Sqrt(2.0/30))
	f("all alike", []float32{3, 2, 1}, []float32{2, 2, 2}, math.NaN(), math.Sqrt(2.0/14))
	f("another number", []float32{3, 2, 1}, []float32{3, 2}, math.NaN(), math.NaN())
}

// Each letter is a model, whose vectors have a direction of its own, but for those of
// "n": of a norm of their own, and "d": of another length.
func TestDriftChanges(t *testing.T) {
	models := map[rune]*result.Result{
		'a': embedded([]float32{3, 4, 0}), 'b': embedded([]float32{4, 3, 0}), 'c': embedded([]float32{0, 0, 5}),
		'n': embedded([]float32{0.6, 0.8, 0}), 'd': embedded([]float32{3, 4}),
		'x': lab.With(embedded(), func(r *result.Result) { r.Outcome = result.HTTPError }),
		// Off by 1.1 % and by 2.1 % of the norm.
		'~': embedded([]float32{3.03, 4.045, 0}), '=': embedded([]float32{3, 4, 0.105}),
	}
	f := func(name string, want uint64, answers string) {
		t.Helper()
		l := newLab()
		for _, c := range answers {
			l.Run(models[c])
		}
		got := l.Last.Changes[SourceEmbedding]
		if got != want || l.Last.Watched != [8]bool{indexEmbedding: true} || l.Last.LastChange[indexEmbedding].IsZero() != (want == 0) {
			t.Errorf("%s: %d changes, the last at %v, watched %v; want %d", name, got, l.Last.LastChange[indexEmbedding], l.Last.Watched, want)
		}
	}
	f("always the same", 0, "aaaaaaaaaaaaaaaaaaaaaaaa")
	f("noise", 0, "aaaaaaaaaaa~=~=~===~=~~~=~=~=~")
	f("another model", 1, "aaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbb")
	f("four answers of another", 0, "aaaaaaaaaabbbb")
	f("five in a row", 1, "aaaaaaaaaabbbbabbbbb")
	f("five with a failure among them", 1, "aaaaaaaaaabbxbbb")
	f("several in a row", 1, "aaaaaaaaaabcbcb")
	f("before it was learnt", 0, "aaaaaaaaabbbbbbbbbb")
	f("there and back", 2, "aaaaaaaaaabbbbbbbbbbbbbbbaaaaa")
	f("another norm", 1, "aaaaaaaaaannnnn")
	f("another length", 1, "aaaaaaaaaaddddd")
	f("two models by turns", 0, "acacacacacacacacacacacacacaccccccc")

	// After a change Drift still compares with the first answer.
	l := newLab()
	for _, c := range "aaaaaaaaaabbbbbbbbbbbbbbbbbbbbb" {
		l.Run(models[c])
	}
	wantDrift(t, "after a change", l.Last.Drift.Similarity, 0.96)
	if f := l.Run(lab.With(embedded([]float32{1}), func(r *result.Result) { r.Model = "another" })); f.Changes[SourceEmbedding] != 0 || *f.Drift.Similarity != 1 {
		t.Errorf("a model of another name: %+v, %+v", f, f.Drift)
	}
	l = newLab()
	for range 10 {
		l.Run(ranked(0.9, 0.5, 0.1))
	}
	for range 5 {
		l.Run(ranked(0.5, 0.9, 0.1))
	}
	if f := l.Last; len(f.Changes) != 1 || f.Changes[SourceRerank] != 1 || f.Watched != [8]bool{indexRerank: true} {
		t.Errorf("scores: %+v", f)
	}
}

// noisyAnswers observes n answers whose distance from the model's is drawn: log-normal,
// over twice the median once in six times and over ten times once in 2,000. A share of
// them is further apart, as of a replica that computes otherwise.
func noisyAnswers(seed uint64, n int, median, share, apart float64) uint64 {
	const dimensions = 16
	rng := rand.New(rand.NewPCG(seed, 7))
	at := func(distance float64) []float32 {
		v := make([]float32, dimensions)
		v[0], v[1+rng.IntN(dimensions-1)] = 1, float32(distance)
		return v
	}
	d := drift{index: indexEmbedding}
	for i := range n {
		distance := median * math.Exp(0.7*rng.NormFloat64())
		if rng.Float64() < share {
			distance += apart
		}
		r := embedded(at(distance))
		if i == 0 {
			d.first = r.Values
		}
		d.observe(r, lab.Noon().Add(time.Duration(i)*time.Minute))
	}
	return d.count
}

// Twenty months of an answer every ten minutes, from four replicas of which one computes
// in another precision.
func TestNoiseIsNoDrift(t *testing.T) {
	const months, each = 20, 30 * 24 * 6
	events := uint64(0)
	for seed := range uint64(months) {
		events += noisyAnswers(seed, each, 0.01, 0.25, 0.02)
	}
	if events > 1 {
		t.Errorf("%d changes in %d months", events, months)
	}
}

// BenchmarkDrift reports false changes of embeddings in 200 months of an answer every
// ten minutes, by the median of the noise as a share of the norm.
func BenchmarkDrift(b *testing.B) {
	for _, median := range []float64{0.001, 0.005, 0.01, 0.02, 0.04} {
		b.Run(fmt.Sprint(median), func(b *testing.B) {
			const months, each = 200, 30 * 24 * 6
			for b.Loop() {
				events := uint64(0)
				for seed := range uint64(months) {
					events += noisyAnswers(seed, each, median, 0, 0)
				}
				b.ReportMetric(float64(events)/months, "changes/month")
			}
		})
	}
}

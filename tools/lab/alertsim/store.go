package main

import (
	"context"
	"errors"
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// series is one series in memory.
type series struct {
	labels  labels.Labels
	samples samples
}

// store holds the series of a simulation for the query engine. It is not safe
// for concurrent use.
type store struct {
	byName map[string][]*series
}

func newStore() *store { return &store{byName: map[string][]*series{}} }

// add takes a series with its samples and returns it for more.
func (s *store) add(lset labels.Labels, with samples) *series {
	name := lset.Get(labels.MetricName)
	added := &series{labels: lset, samples: with}
	s.byName[name] = append(s.byName[name], added)
	return added
}

// find returns the series with exactly these labels, or nil.
func (s *store) find(lset labels.Labels) *series {
	for _, have := range s.byName[lset.Get(labels.MetricName)] {
		if labels.Equal(have.labels, lset) {
			return have
		}
	}
	return nil
}

func (s *series) append(t int64, v float64) {
	s.samples = append(s.samples, sample{t, v})
}

// Querier implements storage.Queryable.
func (s *store) Querier(from, to int64) (storage.Querier, error) {
	return &querier{store: s, from: from, to: to}, nil
}

type querier struct {
	store    *store
	from, to int64
}

// Select implements storage.Querier. Rules name their metrics, so a selector
// without an equality on the name is an error.
func (q *querier) Select(_ context.Context, sorted bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	name := ""
	for _, m := range matchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			name = m.Value
		}
	}
	if name == "" {
		return storage.ErrSeriesSet(errors.New("selector names no metric"))
	}
	set := &seriesSet{next: -1}
	for _, have := range q.store.byName[name] {
		if !matches(have.labels, matchers) {
			continue
		}
		from, to := have.samples.from(q.from), have.samples.from(q.to+1)
		if from < to {
			set.all = append(set.all, &series{have.labels, have.samples[from:to]})
		}
	}
	if sorted {
		sort.Slice(set.all, func(i, j int) bool { return labels.Compare(set.all[i].labels, set.all[j].labels) < 0 })
	}
	return set
}

func matches(lset labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(lset.Get(m.Name)) {
			return false
		}
	}
	return true
}

// LabelValues implements storage.Querier; no query needs it.
func (*querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// LabelNames implements storage.Querier; no query needs it.
func (*querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// Close implements storage.Querier.
func (*querier) Close() error { return nil }

type seriesSet struct {
	all  []*series
	next int
}

func (s *seriesSet) Next() bool                        { s.next++; return s.next < len(s.all) }
func (s *seriesSet) At() storage.Series                { return s.all[s.next] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// Labels implements storage.Series.
func (s *series) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series.
func (s *series) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return storage.NewListSeriesIterator(s.samples)
}

// samples are the samples of a series, in the order of their times.
type samples []sample

// Len implements storage.Samples.
func (s samples) Len() int { return len(s) }

// Get implements storage.Samples.
func (s samples) Get(i int) chunks.Sample { return &s[i] }

// from returns the index of the first sample at t, milliseconds, or later.
func (s samples) from(t int64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].t >= t })
}

// sample is a float at a time in milliseconds.
type sample struct {
	t int64
	v float64
}

// T implements chunks.Sample.
func (s *sample) T() int64 { return s.t }

// ST implements chunks.Sample.
func (s *sample) ST() int64 { return 0 }

// F implements chunks.Sample.
func (s *sample) F() float64 { return s.v }

// H implements chunks.Sample.
func (s *sample) H() *histogram.Histogram { return nil }

// FH implements chunks.Sample.
func (s *sample) FH() *histogram.FloatHistogram { return nil }

// Type implements chunks.Sample.
func (s *sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Copy implements chunks.Sample.
func (s *sample) Copy() chunks.Sample { c := *s; return &c }

package collector

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// row is one family of the series of probes: its name and meaning, which series have it, and how it follows from
// results. Everything else about the family follows from its row: the room that it takes in a series, its zeros at the
// start and after a change of the model, what a compact page leaves out of it, and its line in the documentation.
type row struct {
	// Name is that in families.yml; one that ends in _total is a counter.
	Name string
	// Label is the label that the family adds to those of the series, and Values are its values; "" for none.
	Label  string
	Values []string
	// Bounds are those of a histogram in seconds.
	Bounds []float64

	// Has reports whether series with the options have value i of the label, which is 0 without a label; nil is always.
	Has func(o *SeriesOptions, i int) bool
	// Late reports whether value i of the label is absent until it is counted, if only with 0; nil is never.
	Late func(i int) bool
	// Since reports, of a row that is late, whether a probe may be the first that counts; nil is any.
	Since func(p *probe) bool
	// FromZero gives a gauge the value 0 until it is first set.
	FromZero bool
	// Flaw leaves values at zero off a compact page, but for successes, which rules divide by.
	Flaw bool
	// Like is the name of a histogram; a compact page leaves out this one while both are equal.
	Like string

	// On is what the row takes notice of; 0 is onProbe.
	On occasion

	// One of these says what the samples are.

	// Count returns how much a probe adds to the counter of value i; negative is not known.
	Count func(p *probe, i int) int
	// Sum returns the same as a float, and Per what the sum is divided by on the page, so that
	// errors of rounding do not add up; 0 is 1.
	Sum func(p *probe, i int) float64
	Per float64
	// Gauge returns the gauge of value i after a probe, from that before it. NaN is absent.
	Gauge func(p *probe, i int, before float64) float64
	// Time returns the duration that a probe adds to the histogram or, without Bounds, to the
	// summary of value i; negative is none. Only probes that are timed are asked.
	Time func(p *probe, i int) time.Duration
	// Times observes several durations of a probe in a histogram, none of which is an exemplar.
	Times func(p *probe, h *histogram)
	// Value returns the gauge or counter of value i from what else is known of a series. NaN is absent.
	Value func(s *Series, i int) float64
}

// probe is a result, and how a series takes it.
type probe struct {
	*series.Observation
	options *SeriesOptions
	on      occasion
	tokens  result.Tokens // those that are believed

	ok      bool // a success
	timed   bool // a success whose latencies count
	skipped result.SkipReason
}

// occasion is why a series takes notice of something.
type occasion uint8

const (
	onProbe  occasion = 1 << iota // a probe has a result that says something of the endpoint
	onCancel                      // the exporter ended a probe
	onSpend                       // tokens were spent, by which of these ever or for something else
	onSkip                        // a probe did not run
	onWait                        // a user would have waited while a probe did

	onTokens = onProbe | onCancel | onSpend
)

// late is Late for all values.
func late(int) bool { return true }

// one returns how much a probe adds to a count of those for which something holds.
func one(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

// orAbsent returns v, NaN where it is negative, which is not known.
func orAbsent(v float64) float64 { return workload.If(v >= 0, v) }

// ofLatest returns a gauge of the latest probe, which get may call absent by NaN.
func ofLatest(get func(p *probe) float64) func(p *probe, i int, before float64) float64 {
	return func(p *probe, _ int, _ float64) float64 { return get(p) }
}

// ifTimed returns the seconds of a duration, if the latencies of the probe count and it is known.
func (p *probe) ifTimed(d time.Duration) float64 {
	return workload.If(p.timed && d >= 0, d.Seconds())
}

// probeFamily is a row with its constant parts rendered, and its place in the state of a series.
type probeFamily struct {
	*family
	row
	slot  int        // the first of its counts, one for each value of the label
	float int        // the first of its floats
	hist  int        // of its histogram
	empty *histogram // a histogram before its first observation
	like  *probeFamily
}

// probeTable is all rows, and how much room a series needs for them.
type probeTable struct {
	families     []*probeFamily       // sorted by name
	shown        []*familyOf[*Series] // the same
	slots, hists int
	start        []float64 // the floats of a new series
}

// newProbeTable gives each row its place.
func newProbeTable(families []*probeFamily) *probeTable {
	t := &probeTable{families: families}
	byName := map[string]*probeFamily{}
	for _, f := range families {
		byName[f.Name] = f
		f.like = byName[namePrefix+f.Like]
		switch {
		case f.bounds != nil:
			f.hist, f.empty = t.hists, new(newHistogram(&f.bounds))
			t.hists++
		case f.Count != nil || f.Sum != nil || f.Gauge != nil || f.Time != nil:
			f.slot, f.float = t.slots, len(t.start)
			t.slots += len(f.pairs)
			first := 0.0
			if f.Gauge != nil && !f.FromZero {
				first = math.NaN()
			}
			if f.Count == nil {
				t.start = append(t.start, slices.Repeat([]float64{first}, len(f.pairs))...)
			}
		}
	}
	slices.SortFunc(t.families, func(a, b *probeFamily) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range t.families {
		t.shown = append(t.shown, &familyOf[*Series]{f.family, func(e encoder, _ *family, s *Series) { s.encode(e, f) }})
	}
	return t
}

// newRows renders the constant parts of rows of endpoints of some kinds; nil is all.
func newRows(kinds []api.Kind, rows ...row) (all []*probeFamily) {
	for _, r := range rows {
		all = append(all, newRow(written(r.Name), kinds, r))
	}
	return all
}

// newRow renders the constant parts of a row that has a name, a unit and a text.
func newRow(f Family, kinds []api.Kind, r row) *probeFamily {
	f.Type, f.Kinds, f.Values, f.Labels = r.kind(), kinds, r.Values, append([]string{"endpoint", "model", "module", "prefix"}, sizeLabels()...)
	if r.Label != "" {
		f.Labels = append(f.Labels, r.Label)
	}
	r.Name, r.On = f.Name, cmp.Or(r.On, onProbe)
	return &probeFamily{family: newFamily(f, r.Bounds), row: r}
}

// kind returns the type that a row's fields imply.
func (r *row) kind() Type {
	switch {
	case r.Bounds != nil:
		return Histogram
	case r.Time != nil:
		return Summary
	}
	return typeOf(r.Name)
}

func (f *probeFamily) has(o *SeriesOptions, i int) bool { return f.Has == nil || f.Has(o, i) }

func (f *probeFamily) take(s *Series, p *probe) {
	switch {
	case f.bounds != nil:
		if p.timed && f.has(p.options, 0) {
			f.observe(s, p)
		}
	case f.Value != nil:
	default:
		for i := range f.pairs {
			if f.has(p.options, i) {
				f.add(s, p, i)
			}
		}
	}
}

// add takes the part of a probe that belongs to value i of the label.
func (f *probeFamily) add(s *Series, p *probe, i int) {
	slot, float := f.slot+i, f.float+i
	switch {
	case f.Count != nil:
		n := f.Count(p, i)
		isLate := f.Late != nil && f.Late(i)
		if n < 0 || n == 0 && !isLate || f.Since != nil && !s.counts.has(slot) && !f.Since(p) {
			return
		}
		s.counts.add(int32(slot), uint64(n))
	case f.Sum != nil:
		s.floats[float] += f.Sum(p, i)
	case f.Gauge != nil:
		s.floats[float] = f.Gauge(p, i, s.floats[float])
	case p.timed:
		if d := f.Time(p, i); d >= 0 {
			s.counts.add(int32(slot), 1)
			s.floats[float] += d.Seconds()
		}
	}
}

// observe takes the durations of a probe into the histogram, which is made at the first.
func (f *probeFamily) observe(s *Series, p *probe) {
	h := s.histograms[f.hist]
	if h == nil {
		h = new(*f.empty)
	}
	if f.Times != nil {
		f.Times(p, h)
	} else if d := f.Time(p, 0); d >= 0 {
		h.observeTraced(d.Seconds(), p.TraceID, p.Start)
	}
	if h.count > 0 {
		s.histograms[f.hist] = h
	}
}

func (s *Series) histogram(f *probeFamily) *histogram {
	if h := s.histograms[f.hist]; h != nil {
		return h
	}
	return f.empty
}

func (f *probeFamily) show(e encoder, s *Series) {
	switch {
	case f.bounds != nil:
		h := s.histogram(f)
		if f.has(s.options, 0) && (f.like == nil || !e.out().compact || !h.equals(s.histogram(f.like))) {
			e.histogram(h)
		}
	default:
		for _, i := range f.order {
			if f.has(s.options, i) {
				f.sample(e, s, i)
			}
		}
	}
}

// sample encodes the sample of value i of the label, unless it is absent.
func (f *probeFamily) sample(e encoder, s *Series, i int) {
	slot, float := f.slot+i, f.float+i
	switch {
	case f.Count != nil, f.Time != nil:
		n, counted := s.counts.of(slot)
		switch {
		case !counted && f.Late != nil && f.Late(i):
		case n == 0 && f.Flaw && e.out().compact && (f.Label == "" || f.Values[i] != string(result.Success)):
		case f.Count != nil:
			e.counter(i, float64(n))
		default:
			e.summary(i, s.floats[float], n)
		}
	case f.Sum != nil:
		e.counter(i, s.floats[float]/max(1, f.Per))
	case f.Gauge != nil:
		emitValue(e, Gauge, i, s.floats[float])
	default:
		emitValue(e, f.Type, i, f.Value(s, i))
	}
}

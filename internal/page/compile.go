package page

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// kind is what the samples of a source are.
type kind uint8

const (
	gauge     kind = iota
	counter        // grows until its series is reset
	histogram      // its buckets, sum and count, all of them counters
)

// part is what a sample is of its source.
type part uint8

const (
	partValue part = iota // of a gauge or counter
	partBucket
	partCount
	partSum
)

// source is a place of numbers on a page: the samples of one name that match.
type source struct {
	kind      kind
	labels    []labels.Label // a sample must have all of them
	without   []string       // labels that tell no series of it apart: with one value, of copies, and le of a histogram; sorted
	fromLabel string         // the label with the number; "" for the sample's value
	itemsOf   string         // the label with a list whose items are counted; "" is none
	textOf    string         // the label with the text of a setting; "" is none
	max       bool           // the largest of several samples counts, not the sum
	min       bool           // the smallest of several samples of a gauge counts
	signed    bool           // a negative number is one too: that of a state
	requests  *config.MappingRequests
	device    *deviceSource // of accelerators
	// spelled is the source whose samples decide in which way the name is spelled on this page: the source
	// itself but for ended requests, where it is the first of the sources of one name.
	spelled int
}

// target says what the samples of a name are. Spelling counts from 0 for the form of the name to prefer.
type target struct {
	source   int
	part     part
	spelling uint8
}

// family says of what type the samples of a name must be.
type family struct {
	source    int
	histogram bool
	spelling  uint8
}

// number is how to work out a number from those of sources.
type number struct {
	source      int
	scale       float64
	when        *number // without it, or where it is 0, there is no number
	plus, times *number
	over        *number // what it is divided by
	either      bool    // plus alone is enough: it is of the same series
}

// distribution is how to work out a histogram: from that of a source, or from the numbers sum and count.
type distribution struct {
	source     int
	scale      float64
	sum, count *number // nil where source is used
}

// ended is a series of ended requests.
type ended struct {
	sources []int // by index in finishes
	vague   bool  // it never says how they ended
}

// cacheHits is how to work out the hits of a prefix cache.
type cacheHits struct {
	*config.MappingPrefixCache
	hits, queries *number
	alone         bool // no other quantity is read from the series of the queries
}

// mapping is a config.Mapping made ready to read pages with. It is immutable.
type mapping struct {
	*software
	readings map[gpu.Kind][]deviceReading // of accelerators, instead of values and what follows

	targets  map[string][]target // by plain series name
	families map[string][]family // by plain name in a TYPE line
	sources  []source
	start    int // the source of the time at which the process of a server started

	labels     []labels.Label // restrict all samples that have the label
	values     map[config.Quantity][]*number
	histograms map[config.Quantity][]*distribution

	inputLengths, outputLengths []*distribution // nil where they are not read

	info        map[config.Setting][]*number // those with the texts have no numbers
	prefixCache []cacheHits
	progress    []*number
	finishes    []string
	roles       []string
	requests    []ended
	expected    []config.Quantity
	afterWork   []config.Quantity // expected once the server has worked

	// Of the backends of a gateway. Without backendRequests they are those of requests.
	backendRequests []ended
	ready           []readiness
}

// compile makes a mapping ready. What is wrong in it for a page shows when the page is read. Lengths are those
// of requests.
func compile(one *software, lengths bool) *mapping {
	e := one.config
	c := &mapping{
		software: one, targets: map[string][]target{}, families: map[string][]family{}, start: -1,
		labels:     sortedLabels(e.Labels),
		values:     map[config.Quantity][]*number{},
		histograms: map[config.Quantity][]*distribution{}, info: map[config.Setting][]*number{},
		finishes: config.MappedFinishes(), roles: config.Roles(), expected: readable(e, e.Expected), afterWork: readable(e, e.ExpectedAfterWork),
	}
	if c.exporter != nil {
		c.compileExporter()
		return c
	}
	c.start = c.addSource("process_start_time_seconds", source{max: true})
	for q, sources := range e.Values {
		kind := gauge
		if config.IsCounter(q) {
			kind = counter
		}
		c.values[q] = each(sources, func(s *config.MappingSource) *number { return c.addNumber(s, kind) })
		for _, n := range c.values[q] {
			c.sources[n.source].min = config.IsSmallest(q)
		}
	}
	for q, sources := range e.Histograms {
		c.histograms[q] = each(sources, c.addDistribution)
	}
	if lengths {
		c.inputLengths, c.outputLengths = each(e.InputLengths, c.addDistribution), each(e.OutputLengths, c.addDistribution)
	}
	for name, sources := range e.Info {
		c.info[name] = c.addInfo(sources)
	}
	c.prefixCache = each(e.PrefixCache, func(p *config.MappingPrefixCache) cacheHits {
		return cacheHits{p, c.addNumber(&p.Hits, counter), c.addNumber(&p.Queries, counter), !isValue(e, p.Queries.Series)}
	})
	c.progress = each(e.Progress, func(s *config.MappingSource) *number { return c.addNumber(s, counter) })
	c.requests, c.backendRequests = each(e.Requests, c.addRequests), each(e.BackendRequests, c.addRequests)
	c.ready = each(e.Ready, func(r *config.MappingReady) readiness {
		s := &config.MappingSource{Series: r.Series, Labels: r.Labels, Combine: config.CombineMax, Scale: 1}
		n := c.addNumber(s, gauge)
		c.sources[n.source].signed = true
		return readiness{n, r.Values}
	})
	return c
}

// each returns what f makes of each of a list, in its order.
func each[S, T any](list []S, f func(*S) T) (made []T) {
	for i := range list {
		made = append(made, f(&list[i]))
	}
	return made
}

// readable returns the quantities without those that are not to be read, as an empty list of sources says.
func readable(e *config.Mapping, expected []config.Quantity) []config.Quantity {
	return slices.DeleteFunc(slices.Clone(expected), func(q config.Quantity) bool {
		sources, written := e.Values[q]
		return written && len(sources) == 0
	})
}

// isValue reports whether a quantity is read from a series.
func isValue(e *config.Mapping, series string) bool {
	for _, sources := range e.Values {
		if slices.ContainsFunc(sources, func(s config.MappingSource) bool { return s.Series == series }) {
			return true
		}
	}
	return false
}

func sortedLabels(m map[string]string) []labels.Label {
	return stats.Map(slices.Sorted(maps.Keys(m)), func(name string) labels.Label { return labels.Label{Name: name, Value: m[name]} })
}

// addSource adds a source of the samples of a name and returns its index.
func (c *mapping) addSource(name string, s source) int {
	i := len(c.sources)
	s.spelled, s.without = i, slices.Clone(c.config.Copies)
	if s.kind == histogram {
		s.without = append(s.without, "le")
	}
	for _, l := range slices.Concat(s.labels, c.labels) {
		if l.Value == "" || slices.Contains(s.labels, l) {
			s.without = append(s.without, l.Name)
		}
	}
	slices.Sort(s.without)
	c.sources = append(c.sources, s)
	c.find(name, i)
	return i
}

// find makes the samples of a name those of source i.
func (c *mapping) find(name string, i int) {
	name = plain(name)
	switch c.sources[i].kind {
	case gauge:
		c.findNumber(name, i, 0)
	case counter:
		bare := strings.TrimSuffix(name, "_total")
		c.findNumber(bare+"_total", i, 0)
		c.findNumber(bare, i, 1)
	case histogram:
		c.families[name] = append(c.families[name], family{source: i, histogram: true})
		for suffix, p := range map[string]part{"_bucket": partBucket, "_count": partCount, "_sum": partSum} {
			c.targets[name+suffix] = append(c.targets[name+suffix], target{source: i, part: p})
		}
	}
}

func (c *mapping) findNumber(name string, i int, spelling uint8) {
	c.targets[name] = append(c.targets[name], target{source: i, spelling: spelling})
	c.families[name] = append(c.families[name], family{source: i, spelling: spelling})
}

// addNumber adds the sources of a number. A factor is no counter: it is how large one of what is counted is. A
// condition is none either, as only the latest page counts, unless it is that the number itself is not 0.
func (c *mapping) addNumber(s *config.MappingSource, k kind) *number {
	n := &number{scale: s.Scale}
	n.source = c.addSource(s.Series, source{
		kind: k, labels: sortedLabels(s.Labels), fromLabel: s.FromLabel, itemsOf: s.ItemsOf, max: s.Combine == config.CombineMax,
	})
	switch {
	case s.If == nil:
	case s.If.Series == s.Series && maps.Equal(s.If.Labels, s.Labels):
		n.when = &number{source: n.source, scale: 1}
	default:
		n.when = c.addNumber(s.If, gauge)
	}
	if s.Plus != nil {
		n.plus, n.either = c.addNumber(s.Plus, k), s.Plus.Series == s.Series
	}
	if s.Times != nil {
		n.times = c.addNumber(s.Times, gauge)
	}
	if s.Over != nil {
		n.over = c.addNumber(s.Over, gauge)
	}
	return n
}

func (c *mapping) addDistribution(h *config.MappingHistogram) *distribution {
	selector := sortedLabels(h.Labels)
	if h.Series != "" {
		return &distribution{source: c.addSource(h.Series, source{kind: histogram, labels: selector}), scale: h.Scale}
	}
	add := func(name string, scale float64) *number {
		return &number{source: c.addSource(name, source{kind: counter, labels: selector}), scale: scale}
	}
	return &distribution{sum: add(h.Sum, h.Scale), count: add(h.Count, 1)}
}

// addRequests adds a source for each way to end. Samples are found as those of the first and go to the one that
// their labels name.
func (c *mapping) addRequests(r *config.MappingRequests) ended {
	first := c.addSource(r.Series, source{kind: counter, labels: sortedLabels(r.Labels), requests: r})
	sources := []int{first}
	for range c.finishes[1:] {
		sources = append(sources, len(c.sources))
		c.sources = append(c.sources, source{kind: counter, spelled: first})
	}
	return ended{sources, len(r.By)+len(r.Status) == 0 && r.Else == config.FinishUnknown}
}

// finish returns the index of how the request of a sample ended.
func (c *mapping) finish(r *config.MappingRequests, ls labels.Labels) int {
	for _, by := range r.By {
		if as, ok := r.As[ls.Get(by)]; ok {
			return slices.Index(c.finishes, as)
		}
	}
	for _, status := range r.Status {
		if as := config.FinishOfStatus(ls.Get(status)); as != "" {
			return slices.Index(c.finishes, as)
		}
	}
	return slices.Index(c.finishes, r.Else)
}

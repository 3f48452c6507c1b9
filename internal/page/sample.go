package page

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// sample is a sample of a page that a source of the mapping wants.
type sample struct {
	source   int32
	part     part
	spelling uint8
	model    modelMatch
	offset   int32   // in the page
	owner    int32   // the backend or device that it is of, as owner numbers it; 0 is the server
	set      uint64  // hash of the labels, without those that all samples of the source have, copies and le
	series   uint64  // hash of name and labels, of a bucket without le
	le       float64 // of a bucket
	value    float64 // finite, and not negative but for a state
	rank     float64 // of a list: the one with the largest counts
}

// modelMatch is of which model a sample is.
type modelMatch uint8

const (
	noModel modelMatch = iota // has no label with the model, or the model is not known
	thisModel
	otherModel
)

// models is of which models the samples of a page are.
type models struct {
	own    bool   // of the endpoint's
	other  string // of another one
	others bool   // of more than one other
}

// add takes in the model of a sample.
func (m *models) add(match modelMatch, name string) {
	switch {
	case match == thisModel:
		m.own = true
	case match == noModel, name == m.other:
	case m.other == "":
		m.other = name
	default:
		m.others = true
	}
}

// areTold reports whether samples of other models do not count. One other model alone may be the endpoint's
// under another name.
func (m *models) areTold() bool { return m.own || m.others }

// wrongType is a family that a source cannot be read from.
type wrongType struct {
	family
	name string
	typ  model.MetricType
}

// gatherOf does what gather does, and returns the page that was read for it: one without the lines that are
// not mapped, unless there is an error, which is that of the whole page.
func (s *scratch) gatherOf(whole *page, c *mapping, model string) (filtered bool, read *page, err error) {
	if mapped := whole.only(c, s.mapped); mapped != nil {
		s.mapped = mapped.text
		if filtered, err = s.gather(mapped, c, model); err == nil {
			return filtered, mapped, nil
		}
	}
	filtered, err = s.gather(whole, c, model)
	return filtered, whole, err
}

// gather reads the samples of a page that the mapping wants, of the model that is wanted. It leaves them in
// order, copies made one, and reports whether those of other models were left out.
func (s *scratch) gather(p *page, c *mapping, model string) (bool, error) {
	s.reset(c)
	if err := p.each(func() error { return s.add(p, c, model) }, func() { s.check(p, c) }); err != nil {
		return false, err
	}
	filtered := s.filter(c)
	if err := s.checkTypes(c); err != nil {
		return false, err
	}
	return filtered, s.sort(p)
}

// check notes the type of a family where it is none that the mapping can read: for each source, that of the
// preferred spelling.
func (s *scratch) check(p *page, c *mapping) {
	name, typ := p.parser.Type()
	s.plain = appendPlain(s.plain[:0], name)
	buckets := typ == model.MetricTypeHistogram || typ == model.MetricTypeGaugeHistogram
	for _, f := range c.families[string(s.plain)] {
		if typ == model.MetricTypeUnknown || typ != model.MetricTypeSummary && f.histogram == buckets {
			continue
		}
		f.spelling = f.spelling*spellings + spelling(name)
		switch i := slices.IndexFunc(s.wrong, func(w wrongType) bool { return w.source == f.source }); {
		case i < 0:
			s.wrong = append(s.wrong, wrongType{f, quoted(name), typ})
		case f.spelling < s.wrong[i].spelling:
			s.wrong[i] = wrongType{f, quoted(name), typ}
		}
	}
}

// checkTypes returns an error where a family of the wrong type is the one that a source would be read from.
func (s *scratch) checkTypes(c *mapping) error {
	for _, w := range s.wrong {
		if w.spelling <= s.spelling[w.source] {
			want := "a number"
			if w.histogram {
				want = "a histogram"
			}
			return pageErrorf(ReasonType, "series %s is a %s, and the mapping %s wants %s", w.name, w.typ, c.name, want)
		}
	}
	return nil
}

// add adds the sample that the page is at, for each source that wants it.
func (s *scratch) add(p *page, c *mapping, model string) error {
	text, _, value := p.parser.Series()
	name := seriesName(text)
	if string(name) != string(s.last) {
		s.plain = appendPlain(s.plain[:0], name)
		s.last, s.targets = name, c.targets[string(s.plain)]
	}
	if len(s.targets) == 0 {
		return nil
	}
	if len(text) > maxSeriesBytes {
		return pageErrorf(ReasonTooLarge, "series %s has more than %d bytes", quoted(name), maxSeriesBytes)
	}
	if s.addBucket(p, text, value) {
		return nil
	}
	var ls labels.Labels
	p.parser.Labels(&ls)
	if !c.wants(ls) {
		return nil
	}
	first := len(s.samples)
	match, shown := c.match(ls, model)
	base := sample{offset: int32(p.offset(text)), series: ls.Hash(), model: match}
	for _, t := range s.targets {
		sm, ok := s.sample(base, c, t, ls, value)
		if !ok {
			continue
		}
		sm.spelling = t.spelling*spellings + spelling(name)
		if len(s.samples) == maxMappedSamples {
			return pageErrorf(ReasonTooLarge, "more than %d samples that mapping %s reads", maxMappedSamples, c.name)
		}
		s.samples = append(s.samples, sm)
		s.models.add(match, shown)
	}
	if s.role == "" && c.config.RoleLabel != "" {
		if i := slices.Index(c.roles, ls.Get(c.config.RoleLabel)); i >= 0 {
			s.role = c.roles[i] // not a part of the page
		}
	}
	s.keepBucket(text, value, s.samples[first:])
	return nil
}

// bucket is the latest bucket whose labels were parsed, which is most of the work with a page: the other
// buckets of its histogram differ from it in the value of le alone.
type bucket struct {
	before, after []byte   // the text of the series around the value of le; nil is none
	samples       []sample // what it is
}

// cutBucket returns the bound of a bucket and the text of the series around it.
func cutBucket(series []byte) (before []byte, le float64, after []byte, ok bool) {
	at := max(bytes.Index(series, firstLE), bytes.Index(series, laterLE))
	if at < 0 {
		return nil, 0, nil, false
	}
	at += len(firstLE)
	bound, _, _ := bytes.Cut(series[at:], quote)
	le, err := strconv.ParseFloat(string(bound), 64)
	return series[:at], le, series[at+len(bound):], err == nil && !math.IsNaN(le) && !math.IsInf(le, -1)
}

var firstLE, laterLE = []byte(`{le="`), []byte(`,le="`)

// keepBucket keeps the samples that a line was found to be, if it is a bucket.
func (s *scratch) keepBucket(text []byte, value float64, samples []sample) {
	if slices.ContainsFunc(s.targets, func(t target) bool { return t.part != partBucket }) || !isCount(value) {
		return
	}
	if before, _, after, ok := cutBucket(text); ok {
		s.bucket = bucket{before, after, samples}
	}
}

// addBucket adds a bucket of the same histogram as the latest; false for any other sample.
func (s *scratch) addBucket(p *page, text []byte, value float64) bool {
	if n := len(s.bucket.before); n == 0 || len(text) < n || !bytes.Equal(text[:n], s.bucket.before) || !isCount(value) {
		return false
	}
	_, le, after, ok := cutBucket(text)
	if !ok || !bytes.Equal(after, s.bucket.after) || len(s.samples)+len(s.bucket.samples) > maxMappedSamples {
		return false
	}
	for _, sm := range s.bucket.samples {
		sm.offset, sm.le, sm.value = int32(p.offset(text)), le, value
		s.samples = append(s.samples, sm)
	}
	return true
}

// isCount reports whether a value can be a count.
func isCount(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }

// wants reports whether the mapping wants samples with these labels at all.
func (c *mapping) wants(ls labels.Labels) bool {
	for _, l := range c.labels {
		if v := ls.Get(l.Name); v != l.Value && ls.Has(l.Name) {
			return false
		}
	}
	return true
}

// match returns of which model a sample is, and the name of that.
func (c *mapping) match(ls labels.Labels, model string) (modelMatch, string) {
	switch shown := ls.Get(c.config.ModelLabel); {
	case shown == "", model == "":
		return noModel, ""
	case shown == model:
		return thisModel, shown
	default:
		return otherModel, shown
	}
}

// sample returns what a sample of the page is for a target; false where it is nothing.
func (s *scratch) sample(sm sample, c *mapping, t target, ls labels.Labels, value float64) (sample, bool) {
	src := &c.sources[t.source]
	for _, l := range src.labels {
		if ls.Get(l.Name) != l.Value {
			return sm, false
		}
	}
	if src.requests != nil && src.requests.With != "" && ls.Get(src.requests.With) == "" {
		return sm, false
	}
	var err error
	switch {
	case src.textOf != "":
		value = s.textNumber(ls.Get(src.textOf))
	case src.itemsOf != "":
		if !ls.Has(src.itemsOf) {
			return sm, false
		}
		sm.rank, value = value, items(ls.Get(src.itemsOf))
	case src.fromLabel != "":
		if value, err = strconv.ParseFloat(ls.Get(src.fromLabel), 64); err != nil {
			return sm, false
		}
	}
	if t.part == partBucket {
		sm.le, err = strconv.ParseFloat(ls.Get("le"), 64)
		if err != nil || math.IsNaN(sm.le) || math.IsInf(sm.le, -1) {
			return sm, false
		}
		sm.series, s.hash = ls.HashWithoutLabels(s.hash, labels.BucketLabel)
	}
	sm.set, s.hash = ls.HashWithoutLabels(s.hash, src.without...)
	switch name := c.backendOf(ls); {
	case src.device != nil:
		var ok bool
		if sm.owner, value, ok = s.deviceOf(c, src.device, ls, value); !ok {
			return sm, false
		}
	case name != "":
		sm.owner = s.owner(name)
	}
	sm.source, sm.part, sm.value = int32(t.source), t.part, value
	if src.requests != nil {
		finish := c.finish(src.requests, ls)
		if c.finishes[finish] == config.FinishNone {
			return sm, false
		}
		sm.source += int32(finish)
	}
	return sm, isCount(value) || src.signed && value < 0 && !math.IsInf(value, 0)
}

// items returns how many items a comma-separated list has.
func items(list string) float64 {
	return float64(stats.Count(strings.Split(list, ","), func(item string) bool { return strings.TrimSpace(item) != "" }))
}

// filter keeps the samples that count: of one spelling of each name, and of the wanted model. It reports
// whether samples of other models were left out.
func (s *scratch) filter(c *mapping) bool {
	filtered := s.models.areTold()
	for i := range s.samples {
		sm := &s.samples[i]
		if !filtered || sm.model != otherModel {
			best := &s.spelling[c.sources[sm.source].spelled]
			*best = min(*best, sm.spelling)
		}
	}
	s.samples = slices.DeleteFunc(s.samples, func(sm sample) bool {
		return filtered && sm.model == otherModel || sm.spelling != s.spelling[c.sources[sm.source].spelled]
	})
	return filtered
}

// sort orders the samples by source, labels, part and bound, and makes one of copies.
func (s *scratch) sort(p *page) error {
	slices.SortFunc(s.samples, func(a, b sample) int {
		if c := compareKeys(&a, &b); c != 0 {
			return c
		}
		return cmp.Compare(a.series, b.series)
	})
	kept := s.samples[:0]
	var last uint64
	for _, sm := range s.samples {
		if n := len(kept); n == 0 || compareKeys(&kept[n-1], &sm) != 0 {
			kept = append(kept, sm)
		} else if last == sm.series {
			return pageErrorf(ReasonDuplicate, "series %s is on the page twice", p.at(int(sm.offset)))
		} else {
			kept[n-1].value, kept[n-1].rank = max(kept[n-1].value, sm.value), max(kept[n-1].rank, sm.rank)
		}
		last = sm.series
	}
	s.samples = kept
	return nil
}

func compareKeys(a, b *sample) int {
	return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.set, b.set), cmp.Compare(a.part, b.part), cmp.Compare(a.le, b.le))
}

// scratch is what the reading of a page needs and nothing keeps. It is used again for other pages.
type scratch struct {
	samples  []sample
	mapped   []byte      // the lines of the page that are read
	spelling []uint8     // by source, the one to prefer of those on the page
	wrong    []wrongType // families of the wrong type
	last     []byte      // the latest name of a series
	bucket   bucket
	targets  []target // what samples of that name are
	plain    []byte
	hash     []byte
	series   []series
	numbers  []float64 // what the slices of series are made of
	bad      []bool    // by source, cannot be read from this page
	models   models    // of the samples
	role     string    // of the server, as in a snapshot
	texts    []string  // of settings
	results  []series  // by source
	rank     []series  // of a rank by source
	cells    []cell

	owners  map[string]int32 // numbers of the backends or parts of devices
	host    string           // of the page
	devices map[string]*device
	parts   map[string]*devicePart // by owner
}

// owner returns the number of a backend or a part of a device, from 1 on.
func (s *scratch) owner(key string) int32 {
	if n, known := s.owners[key]; known {
		return n
	}
	if s.owners == nil {
		s.owners = map[string]int32{}
	}
	n := int32(len(s.owners) + 1)
	s.owners[strings.Clone(key)] = n // not a part of the page
	return n
}

// byOwner returns the samples of each owner, in their order.
func (s *scratch) byOwner() map[string][]sample {
	all := make([][]sample, len(s.owners)+1)
	for _, sm := range s.samples {
		all[sm.owner] = append(all[sm.owner], sm)
	}
	byKey := map[string][]sample{}
	for key, n := range s.owners {
		if len(all[n]) > 0 {
			byKey[key] = all[n]
		}
	}
	return byKey
}

// maxKept is for how many samples a scratch may have room to be used again.
const maxKept = 16 << 10

// reset makes the scratch ready for a page.
func (s *scratch) reset(c *mapping) {
	s.again(c, nil)
	s.wrong, s.models, s.role, s.texts, s.bucket = s.wrong[:0], models{}, "", s.texts[:0], bucket{}
	clear(s.owners)
	clear(s.devices)
	clear(s.parts)
	s.spelling = sized(s.spelling, len(c.sources))
	for i := range s.spelling {
		s.spelling[i] = math.MaxUint8
	}
}

// again makes the scratch ready for some of the samples of the same page.
func (s *scratch) again(c *mapping, samples []sample) {
	s.samples = append(s.samples[:0], samples...)
	s.series, s.numbers = s.series[:0], s.numbers[:0]
	s.bad, s.results = sized(s.bad, len(c.sources)), sized(s.results, len(c.sources))
}

// isOfRay reports whether the page has the series of a source as Ray writes it.
func (s *scratch) isOfRay(source int) bool {
	spelled := s.spelling[source]
	return spelled != math.MaxUint8 && spelled&spelledByRay != 0
}

// sized returns a slice of n zeros in the place of b where it fits.
func sized[T any](b []T, n int) []T {
	b = slices.Grow(b[:0], n)[:n]
	clear(b)
	return b
}

// release lets go of what belongs to a page or to a reader. It returns false where the scratch has grown
// too large to be kept.
func (s *scratch) release() bool {
	s.last, s.targets, s.models, s.bucket = nil, nil, models{}, bucket{}
	clear(s.wrong)
	clear(s.series)
	clear(s.results)
	clear(s.rank)
	clear(s.cells)
	return cap(s.samples) <= maxKept
}

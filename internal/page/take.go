package page

import (
	"net/url"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// Taker takes a page that was fetched from a URL. Its text is not to be kept. An error
// that is no *PageError means that the page is not in the text format.
type Taker func(from *url.URL, text []byte, contentType string) error

// NoMappings returns mappings of no software, for endpoints whose pages are read by a
// Taker.
func NoMappings() *Mappings {
	m, _ := newMappings("", nil, nil, false) // nothing can be wrong in none
	return m
}

// interpret returns what the page of a place shows.
func (e *Endpoint) interpret(s *server, p *place, text []byte, contentType string, w Want) (*Snapshot, error) {
	if e.options.Take != nil {
		return &Snapshot{At: e.options.Now()}, e.options.Take(p.page, text, contentType)
	}
	return s.reader.Read(text, contentType, e.options.Now(), w)
}

// Walk calls visit for each sample of a page whose name is wanted, within the bounds
// of all pages. Series that are on the page twice and wanted histograms and summaries
// are errors. Errors are a *PageError.
func Walk(text []byte, contentType string, wants func(name []byte) bool, visit func(name string, ls labels.Labels, value float64)) error {
	p, failed := openPage(text, contentType)
	if failed != nil {
		return failed
	}
	w := walk{page: p, wants: wants, visit: visit, seen: map[uint64]bool{}}
	for {
		entry, failed := p.next()
		switch {
		case failed != nil:
			return failed
		case entry == textparse.EntrySeries:
			failed = w.sample()
		case entry == textparse.EntryType:
			failed = w.checkType()
		default:
			return nil
		}
		if failed != nil {
			return failed
		}
	}
}

// walk is a page on its way through Walk.
type walk struct {
	page  *page
	wants func(name []byte) bool
	visit func(name string, ls labels.Labels, value float64)
	seen  map[uint64]bool // hashes of wanted series
}

func (w *walk) sample() *PageError {
	text, _, value := w.page.parser.Series()
	name := seriesName(text)
	if !w.wants(name) {
		return nil
	}
	if len(text) > maxSeriesBytes {
		return pageErrorf(ReasonTooLarge, "series %s has more than %d bytes", quoted(name), maxSeriesBytes)
	}
	if len(w.seen) == maxMappedSamples {
		return pageErrorf(ReasonTooLarge, "more than %d samples that are read", maxMappedSamples)
	}
	var ls labels.Labels
	w.page.parser.Labels(&ls)
	hash := ls.Hash()
	if w.seen[hash] {
		return pageErrorf(ReasonDuplicate, "series %s is on the page twice", w.page.at(w.page.offset(text)))
	}
	w.seen[hash] = true
	w.visit(ls.Get(model.MetricNameLabel), ls, value)
	return nil
}

func (w *walk) checkType() *PageError {
	name, typ := w.page.parser.Type()
	switch typ {
	case model.MetricTypeHistogram, model.MetricTypeGaugeHistogram, model.MetricTypeSummary:
		if w.wants(name) {
			return pageErrorf(ReasonType, "series %s is a %s, and a number is wanted", quoted(name), typ)
		}
	}
	return nil
}

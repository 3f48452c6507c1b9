package collector

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/internal/page"
)

// Store holds families outside of a registry: Probes or Servers.
type Store interface {
	// write walks over all families, until the encoder fails.
	write(e encoder)
}

// Exposition writes a page of metrics: the families of the stores, then those
// of an ordinary registry. It is safe for concurrent use.
type Exposition struct {
	stores   []Store
	gatherer prometheus.Gatherer
	buffers  sync.Pool // of *[]byte
	compact  atomic.Bool
}

// NewExposition returns the page of the stores, in their order, and g. No family may be in two of them.
func NewExposition(g prometheus.Gatherer, stores ...Store) *Exposition {
	return &Exposition{
		stores:   stores,
		gatherer: g,
		buffers:  sync.Pool{New: func() any { return new([]byte) }},
	}
}

// SetCompact says whether the pages from now on leave out what repeats or is zero: see output.compact.
func (e *Exposition) SetCompact(compact bool) { e.compact.Store(compact) }

// Formats returns the formats that Write knows, in order of preference: what expfmt.NegotiateAccept wants.
func Formats() []expfmt.Format {
	return []expfmt.Format{
		expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtOpenMetrics_0_0_1, expfmt.FmtProtoDelim, expfmt.FmtText,
	}
}

// Write writes the page to w. A format outside of Formats is an error, and so is a failure of w; both leave the page
// incomplete. If only the registry fails, the page is complete but for the registry's part, and the error says why. All
// names are plain ones, so an escaping scheme in format has nothing to do.
func (e *Exposition) Write(w io.Writer, format expfmt.Format) error {
	buf := e.buffers.Get().(*[]byte)
	defer e.buffers.Put(buf)
	if err := e.writeStores(w, format, buf); err != nil {
		return fmt.Errorf("write store metrics: %w", err)
	}
	families, gatherErr := e.gatherer.Gather()
	if err := writeFamilies(w, format, families); err != nil {
		return fmt.Errorf("write registry metrics: %w", err)
	}
	if gatherErr != nil {
		return fmt.Errorf("gather registry metrics: %w", gatherErr)
	}
	return nil
}

func (e *Exposition) writeStores(w io.Writer, format expfmt.Format, buf *[]byte) error {
	out := output{w: w, compact: e.compact.Load(), buf: (*buf)[:0]}
	var enc encoder
	switch kind, versions := format.FormatType(), []string{expfmt.OpenMetricsVersion_1_0_0, expfmt.OpenMetricsVersion_0_0_1}; {
	case kind == expfmt.TypeProtoDelim:
		enc = &protoEncoder{output: out}
	case kind == expfmt.TypeTextPlain, kind == expfmt.TypeOpenMetrics && slices.Contains(versions, format.Version()):
		enc = &textEncoder{output: out, open: kind == expfmt.TypeOpenMetrics}
	default:
		return fmt.Errorf("format %q: %w", string(format), errors.ErrUnsupported)
	}
	for _, s := range e.stores {
		s.write(enc)
	}
	*buf = enc.out().buf
	return enc.out().err
}

// writeFamilies writes gathered families and what ends the page.
func writeFamilies(w io.Writer, format expfmt.Format, families []*dto.MetricFamily) error {
	enc := expfmt.NewEncoder(w, format)
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	if c, ok := enc.(expfmt.Closer); ok {
		return c.Close()
	}
	return nil
}

// flushBytes is how much of a page an encoder of a text format gathers before it writes.
const flushBytes = 64 << 10

// encoder writes one exposition format. The walk over a store calls begin for a family, then for each series labels,
// the samples and flush, then end. A family without a sample leaves no trace. own is the index of the sample's value of
// the family's own label; 0 for a family without one. A created timestamp of zero is not known.
type encoder interface {
	begin(f *family)
	labels(b *labelBlock, created time.Time)

	gauge(own int, v float64)
	counter(own int, v float64)
	summary(own int, sum float64, count uint64)
	histogram(h *histogram)
	engineHistogram(h *page.Histogram)

	// flush and end write what is due. They are called without a lock.
	flush()
	end()

	out() *output
}

// output is where the page of an encoder goes, and what it is at.
type output struct {
	w   io.Writer
	err error // of w; nothing is written after it
	buf []byte
	// compact is a page for those who pay by series. It has no classic buckets of probes, no TTFO that equals the TTFT,
	// no empty summaries, and no counter at zero of what ought not to happen. The counter of successes and all that a
	// rule divides by remain.
	compact bool
	f       *family
	block   *labelBlock
}

func (o *output) out() *output { return o }

func (o *output) write(b []byte) {
	if o.err == nil {
		_, o.err = o.w.Write(b)
	}
}

// textEncoder writes the text format 0.0.4 or, if open, OpenMetrics 1.0. Both as client_golang's expfmt writes them.
// OpenMetrics adds exemplars, and the final "# EOF" is left to the one who knows that nothing follows.
type textEncoder struct {
	output
	open  bool
	parts *lineParts
	begun bool
}

func (e *textEncoder) begin(f *family) {
	e.f, e.parts, e.begun = f, &f.text, false
	if e.open {
		e.parts = &f.open
	}
}

func (e *textEncoder) labels(b *labelBlock, _ time.Time) { e.block = b }

func (e *textEncoder) gauge(own int, v float64) {
	e.name(e.parts.sample, own)
	e.buf = append(appendFloat(e.buf, v, e.open), '\n')
}

func (e *textEncoder) counter(own int, v float64) { e.gauge(own, v) }

func (e *textEncoder) histogram(h *histogram) {
	e.header()
	var cumulative uint64
	counts, exemplars := h.counts, h.exemplars
	for i, le := range e.parts.le {
		if e.compact && i < len(*h.bounds) {
			continue
		}
		if i == len(*h.bounds) {
			cumulative = h.count
		} else if len(counts) > 0 && counts[0].key() == int32(i) {
			cumulative += counts[0].count()
			counts = counts[1:]
		}
		b := append(e.buf, e.parts.bucket...)
		b = append(b, e.block.text...)
		e.buf = append(b, le...)
		e.count(cumulative)
		if e.open && len(exemplars) > 0 && h.bucketOf(exemplars[0].value) == i {
			e.exemplar(&exemplars[0])
			exemplars = exemplars[1:]
		}
		e.buf = append(e.buf, '\n')
	}
	e.summary(0, h.sum, h.count)
}

func (e *textEncoder) engineHistogram(h *page.Histogram) {
	e.header()
	for i, bound := range h.Bounds {
		e.bucket(bound, h.Counts[i])
	}
	e.bucket(math.Inf(1), h.Count)
	e.summary(0, h.Sum, h.Count)
}

func (e *textEncoder) bucket(bound float64, cumulative uint64) {
	e.buf = append(e.buf, e.parts.bucket...)
	e.buf = append(e.buf, e.block.text...)
	e.buf = append(e.buf, `le="`...)
	e.buf = appendFloat(e.buf, bound, e.open)
	e.buf = append(e.buf, `"} `...)
	e.count(cumulative)
	e.buf = append(e.buf, '\n')
}

func (e *textEncoder) flush() {
	if len(e.buf) >= flushBytes {
		e.end()
	}
}

func (e *textEncoder) end() {
	if len(e.buf) > 0 {
		e.write(e.buf)
		e.buf = e.buf[:0]
	}
}

// header appends the comment lines before the first sample of a family.
func (e *textEncoder) header() {
	if !e.begun {
		e.buf = append(e.buf, e.parts.header...)
		e.begun = true
	}
}

// name appends a sample's name and labels. name comes with its brace, and
// every label with a comma after it, the last of which becomes the other brace.
func (e *textEncoder) name(name string, own int) {
	e.header()
	text, at := e.block.text, e.block.at[e.f.own].text
	b := append(e.buf, name...)
	b = append(b, text[:at]...)
	b = append(b, e.f.pairs[own].text...)
	b = append(b, text[at:]...)
	b[len(b)-1] = '}'
	e.buf = append(b, ' ')
}

// summary appends the sum and the count, which are the last lines of a histogram too.
func (e *textEncoder) summary(own int, sum float64, count uint64) {
	e.name(e.parts.sum, own)
	e.buf = append(appendFloat(e.buf, sum, e.open), '\n')
	e.name(e.parts.count, own)
	e.count(count)
	e.buf = append(e.buf, '\n')
}

// count appends a number of observations, which is a whole number in
// OpenMetrics and like any other value in the text format.
func (e *textEncoder) count(n uint64) {
	if e.open {
		e.buf = strconv.AppendUint(e.buf, n, 10)
		return
	}
	e.buf = appendFloat(e.buf, float64(n), false)
}

func (e *textEncoder) exemplar(x *exemplar) {
	e.buf = append(e.buf, ` # {trace_id="`...)
	e.buf = hex.AppendEncode(e.buf, x.trace[:])
	e.buf = append(e.buf, `"} `...)
	e.buf = appendFloat(e.buf, x.value, true)
	e.buf = append(e.buf, ' ')
	e.buf = appendFloat(e.buf, float64(x.at)/1e9, true)
}

// appendFloat appends v as the text format writes it: the shortest form that reads back the same, or, if open, the same
// with the ".0" that OpenMetrics asks of whole numbers.
func appendFloat(b []byte, v float64, open bool) []byte {
	// Whole numbers below a million are most of all samples; above, the shortest form has an exponent.
	if u := uint64(v); v >= 0 && v < 1e6 && float64(u) == v {
		b = strconv.AppendUint(b, u, 10)
		if open {
			b = append(b, ".0"...)
		}
		return b
	}
	start := len(b)
	b = strconv.AppendFloat(b, v, 'g', -1, 64)
	if open && !slices.ContainsFunc(b[start:], func(c byte) bool { return c == '.' || c == 'e' || c == 'N' || c == 'I' }) {
		b = append(b, ".0"...)
	}
	return b
}

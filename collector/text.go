package collector

import (
	"encoding/hex"
	"io"
	"strconv"
	"time"

	"github.com/inference-exporter/inference_exporter/engine"
)

// textEncoder writes the text format 0.0.4 or, if open, OpenMetrics 1.0. Both
// as client_golang's expfmt writes them. OpenMetrics adds exemplars, and the
// final "# EOF" is left to the one who knows that nothing follows.
type textEncoder struct {
	open  bool
	buf   []byte
	f     *family
	parts *lineParts
	block *labelBlock
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

func (e *textEncoder) summary(own int, s *summary) {
	e.sumAndCount(own, s.sum, s.count)
}

func (e *textEncoder) histogram(h *histogram) {
	e.header()
	var cumulative uint64
	exemplars := h.exemplars
	for i, le := range e.parts.le {
		if i < len(h.counts) {
			cumulative += h.counts[i]
		} else {
			cumulative = h.count
		}
		e.buf = append(e.buf, e.parts.bucket...)
		e.buf = append(e.buf, e.block.text...)
		e.buf = append(e.buf, le...)
		e.count(cumulative)
		if e.open && len(exemplars) > 0 && exemplars[0].bucket == i {
			e.exemplar(&exemplars[0])
			exemplars = exemplars[1:]
		}
		e.buf = append(e.buf, '\n')
	}
	e.sumAndCount(0, h.sum, h.count)
}

func (e *textEncoder) engineHistogram(h *engine.Histogram) {
	e.header()
	for i, bound := range h.Bounds {
		e.buf = append(e.buf, e.parts.bucket...)
		e.buf = append(e.buf, e.block.text...)
		e.buf = append(e.buf, `le="`...)
		e.buf = appendFloat(e.buf, bound, e.open)
		e.buf = append(e.buf, `"} `...)
		e.count(h.Counts[i])
		e.buf = append(e.buf, '\n')
	}
	e.buf = append(e.buf, e.parts.bucket...)
	e.buf = append(e.buf, e.block.text...)
	e.buf = append(e.buf, `le="+Inf"} `...)
	e.count(h.Count)
	e.buf = append(e.buf, '\n')
	e.sumAndCount(0, h.Sum, h.Count)
}

func (e *textEncoder) flush(w io.Writer) error {
	if len(e.buf) < flushBytes {
		return nil
	}
	return e.end(w)
}

func (e *textEncoder) end(w io.Writer) error {
	if len(e.buf) == 0 {
		return nil
	}
	_, err := w.Write(e.buf)
	e.buf = e.buf[:0]
	return err
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
	at := e.block.at[e.f.own].text
	e.buf = append(e.buf, name...)
	e.buf = append(e.buf, e.block.text[:at]...)
	e.buf = append(e.buf, e.f.pairs[own].text...)
	e.buf = append(e.buf, e.block.text[at:]...)
	e.buf[len(e.buf)-1] = '}'
	e.buf = append(e.buf, ' ')
}

// sumAndCount appends the two last lines of a summary or histogram.
func (e *textEncoder) sumAndCount(own int, sum float64, count uint64) {
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

// exemplar appends the exemplar of a bucket.
func (e *textEncoder) exemplar(x *exemplar) {
	e.buf = append(e.buf, ` # {trace_id="`...)
	e.buf = hex.AppendEncode(e.buf, x.trace[:])
	e.buf = append(e.buf, `"} `...)
	e.buf = appendFloat(e.buf, x.value, true)
	e.buf = append(e.buf, ' ')
	e.buf = appendFloat(e.buf, float64(x.at)/1e9, true)
}

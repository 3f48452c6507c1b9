package collector

import (
	"io"
	"time"

	"github.com/inference-exporter/inference_exporter/engine"
)

// flushBytes is how much of a page an encoder of a text format gathers before
// it writes.
const flushBytes = 64 << 10

// encoder writes one exposition format. The walk over a store calls begin for a
// family, then for each series labels, the samples and flush, then end. A family
// without a sample leaves no trace. own is the index of the sample's value of
// the family's own label; 0 for a family without one. A created timestamp of
// zero is not known.
type encoder interface {
	begin(f *family)
	labels(b *labelBlock, created time.Time)

	gauge(own int, v float64)
	counter(own int, v float64)
	summary(own int, s *summary)
	histogram(h *histogram)
	engineHistogram(h *engine.Histogram)

	// flush and end write what is due to w. They are called without a lock.
	flush(w io.Writer) error
	end(w io.Writer) error
}

package collector

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Store holds families outside of a registry: Probes or Servers.
type Store interface {
	// write walks over all families.
	write(w io.Writer, e encoder) error
}

// Exposition writes a page of metrics: the families of the stores, then those
// of an ordinary registry. It is safe for concurrent use.
type Exposition struct {
	stores   []Store
	gatherer prometheus.Gatherer
	buffers  sync.Pool // of *[]byte
}

// NewExposition returns the page of the stores, in their order, and g. No
// family may be in two of them.
func NewExposition(g prometheus.Gatherer, stores ...Store) *Exposition {
	return &Exposition{
		stores:   stores,
		gatherer: g,
		buffers:  sync.Pool{New: func() any { return new([]byte) }},
	}
}

// Formats returns the formats that Write knows, in order of preference: what
// expfmt.NegotiateAccept wants.
func Formats() []expfmt.Format {
	return []expfmt.Format{
		expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtOpenMetrics_0_0_1, expfmt.FmtProtoDelim, expfmt.FmtText,
	}
}

// Write writes the page to w. A format outside of Formats is an error, and so
// is a failure of w; both leave the page incomplete. If only the registry
// fails, the page is complete but for the registry's part, and the error tells
// why. All names are plain ones, so an escaping scheme in format has nothing to
// do.
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

// writeStores writes the families of the stores.
func (e *Exposition) writeStores(w io.Writer, format expfmt.Format, buf *[]byte) error {
	switch format.FormatType() {
	case expfmt.TypeTextPlain, expfmt.TypeOpenMetrics:
		open := format.FormatType() == expfmt.TypeOpenMetrics
		if open && !slices.Contains([]string{expfmt.OpenMetricsVersion_1_0_0, expfmt.OpenMetricsVersion_0_0_1}, format.Version()) {
			break
		}
		enc := &textEncoder{open: open, buf: (*buf)[:0]}
		defer func() { *buf = enc.buf }()
		return e.encode(w, enc)
	case expfmt.TypeProtoDelim:
		enc := &protoEncoder{buf: (*buf)[:0]}
		defer func() { *buf = enc.buf }()
		return e.encode(w, enc)
	}
	return fmt.Errorf("format %q: %w", string(format), errors.ErrUnsupported)
}

// encode writes one store after the other.
func (e *Exposition) encode(w io.Writer, enc encoder) error {
	for _, s := range e.stores {
		if err := s.write(w, enc); err != nil {
			return err
		}
	}
	return nil
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

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

// Exposition writes a page of metrics: the families of a store, then those of
// an ordinary registry. It is safe for concurrent use.
type Exposition struct {
	probes   *Probes
	gatherer prometheus.Gatherer
	buffers  sync.Pool // of *[]byte
}

// NewExposition returns the page of p and g.
func NewExposition(p *Probes, g prometheus.Gatherer) *Exposition {
	return &Exposition{
		probes:   p,
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
	if err := e.writeProbes(w, format, buf); err != nil {
		return fmt.Errorf("write probe metrics: %w", err)
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

// writeProbes writes the families of the store.
func (e *Exposition) writeProbes(w io.Writer, format expfmt.Format, buf *[]byte) error {
	switch format.FormatType() {
	case expfmt.TypeTextPlain, expfmt.TypeOpenMetrics:
		open := format.FormatType() == expfmt.TypeOpenMetrics
		if open && !slices.Contains([]string{expfmt.OpenMetricsVersion_1_0_0, expfmt.OpenMetricsVersion_0_0_1}, format.Version()) {
			break
		}
		enc := &textEncoder{open: open, buf: (*buf)[:0]}
		defer func() { *buf = enc.buf }()
		return e.probes.write(w, enc)
	case expfmt.TypeProtoDelim:
		enc := &protoEncoder{buf: (*buf)[:0]}
		defer func() { *buf = enc.buf }()
		return e.probes.write(w, enc)
	}
	return fmt.Errorf("format %q: %w", string(format), errors.ErrUnsupported)
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

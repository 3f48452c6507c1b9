package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"

	"github.com/inference-exporter/inference_exporter/status"
)

// Fixed parts of a stream: how long a browser waits before it connects again,
// in milliseconds, and the event without news.
const (
	streamStart = "retry: 3000\n\n"
	pingText    = "event: ping\ndata: {}\n\n"
)

// gzipHeader begins a stream in gzip, without a name or a time. The sum at its
// end never comes, as a stream does not end.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// event is an event as it goes over the wire, plain and compressed. Compressed
// events may stand one after the other in any order.
type event struct{ plain, packed []byte }

// packer compresses each event once for all who watch.
type packer struct {
	out    bytes.Buffer
	writer *flate.Writer
}

func newPacker() *packer {
	p := &packer{}
	p.writer, _ = flate.NewWriter(&p.out, flate.BestSpeed) // fails at an unknown level only
	return p
}

// pack returns the event with the given text.
func (p *packer) pack(text []byte) *event {
	p.out.Reset()
	p.writer.Reset(&p.out) // the event refers to nothing before it
	_, _ = p.writer.Write(text)
	_ = p.writer.Flush() // to a buffer, which does not fail
	return &event{plain: text, packed: bytes.Clone(p.out.Bytes())}
}

// updateText is an event for the table of all endpoints.
func updateText(u *status.Update) ([]byte, error) {
	data, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "id: %d\nevent: update\ndata: %s\n\n", u.Version, data), nil
}

// endpointText tells the page of one endpoint that there is news.
func endpointText(version uint64) []byte {
	return fmt.Appendf(nil, "id: %d\nevent: endpoint\ndata: {\"version\":%d}\n\n", version, version)
}

// acceptsGzip reports whether the client takes an answer in gzip.
func acceptsGzip(h http.Header) bool { return accepts(h, "gzip") }

// accepts reports whether the client takes an answer in one of the codings, whose
// names are in lower case.
func accepts(h http.Header, codings ...string) bool {
	for _, accepted := range h.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(accepted, ",") {
			name, weight, _ := strings.Cut(coding, ";")
			if !slices.Contains(codings, strings.ToLower(strings.TrimSpace(name))) {
				continue
			}
			if q, weighted := strings.CutPrefix(strings.TrimSpace(weight), "q="); !weighted || strings.Trim(q, "0.") != "" {
				return true
			}
		}
	}
	return false
}

package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/inference-exporter/inference_exporter/internal/status"
)

const (
	// pingInterval is after how long without an event a ping shows that the stream is alive.
	pingInterval = 5 * time.Second
	// eventPiece is how much of a large event one deadline is for.
	eventPiece = 64 << 10
)

// eventsHandler answers /api/v1/events?since=&endpoint= with a stream of server-sent events.
type eventsHandler struct{ hub *hub }

func (h *eventsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	since, err := sinceOf(r)
	if err != nil {
		jsonError(w, http.StatusBadRequest, err.Error())
		return
	}
	endpoint := r.URL.Query().Get("endpoint")
	if endpoint != "" {
		if _, ok := h.hub.status.Version(endpoint); !ok {
			jsonError(w, http.StatusNotFound, errNoEndpoint.Error())
			return
		}
	}
	watcher, err := h.hub.watch(endpoint, since)
	if err != nil {
		jsonError(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer h.hub.leave(watcher)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.Header().Set("Vary", "Accept-Encoding")
	out := &eventWriter{w: w, gzip: acceptsGzip(r.Header)}
	if out.gzip {
		w.Header().Set("Content-Encoding", "gzip")
	}
	if r.Method == http.MethodGet {
		h.stream(r.Context(), out, watcher.events)
	}
}

// stream writes events until there are no more or the client is gone, or does not read.
func (h *eventsHandler) stream(ctx context.Context, out *eventWriter, events <-chan *event) {
	if out.begin(h.hub.start) != nil {
		return
	}
	ping := time.NewTimer(pingInterval)
	defer ping.Stop()
	for {
		next, ok := h.hub.ping, true
		select {
		case <-ctx.Done():
			return
		case <-ping.C:
		case next, ok = <-events:
		}
		if !ok || out.write(next) != nil {
			return
		}
		ping.Reset(pingInterval)
	}
}

type eventWriter struct {
	w    http.ResponseWriter
	gzip bool
}

func (e *eventWriter) begin(start *event) error {
	if e.gzip {
		start = &event{packed: slices.Concat([]byte(gzipHeader), start.packed)}
	}
	return e.write(start)
}

func (e *eventWriter) write(next *event) error {
	bytes := next.plain
	if e.gzip {
		bytes = next.packed
	}
	out := &deadlineWriter{ResponseWriter: e.w}
	for piece := range slices.Chunk(bytes, eventPiece) {
		if _, err := out.Write(piece); err != nil {
			return err
		}
	}
	connection := http.NewResponseController(e.w)
	if err := connection.Flush(); err != nil {
		return err
	}
	// Between events no deadline holds: over HTTP/2 it would end the stream while nothing is written.
	_ = connection.SetWriteDeadline(time.Time{})
	return nil
}

// sinceOf is the version that the client knows, which a browser sends when it connects again. 0 is none.
func sinceOf(r *http.Request) (uint64, error) {
	text := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("since"))
	if text == "" {
		return 0, nil
	}
	since, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, errors.New("parameter since: want the version of a page, a whole number")
	}
	return since, nil
}

// Fixed parts of a stream: how long a browser waits before it connects again,
// in milliseconds, and the event without news.
const (
	streamStart = "retry: 3000\n\n"
	pingText    = "event: ping\ndata: {}\n\n"
)

// gzipHeader begins a stream in gzip, without a name, a time and, as a stream does not end, a sum.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// event is an event as it is sent, plain and compressed. Compressed events may follow in any order.
type event struct{ plain, packed []byte }

// packer compresses each event once for all watchers.
type packer struct {
	out    bytes.Buffer
	writer *flate.Writer
}

func newPacker() *packer {
	p := &packer{}
	p.writer, _ = flate.NewWriter(&p.out, flate.BestSpeed) // fails at an unknown level only
	return p
}

func (p *packer) pack(text []byte) *event {
	p.out.Reset()
	p.writer.Reset(&p.out) // the event refers to nothing before it
	_, _ = p.writer.Write(text)
	_ = p.writer.Flush() // to a buffer, which does not fail
	return &event{plain: text, packed: bytes.Clone(p.out.Bytes())}
}

func updateText(u *status.Update) ([]byte, error) {
	data, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "id: %d\nevent: update\ndata: %s\n\n", u.Version, data), nil
}

func endpointText(version uint64) []byte {
	return fmt.Appendf(nil, "id: %d\nevent: endpoint\ndata: {\"version\":%d}\n\n", version, version)
}

func acceptsGzip(h http.Header) bool { return accepts(h, "gzip") }

// accepts reports whether the client takes one of the codings, whose names are in lower case.
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

package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// ServeHTTP answers /api/v1/events?since=&endpoint= with a stream of server-sent events.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	since, err := sinceOf(r)
	if err != nil {
		jsonError(w, http.StatusBadRequest, err.Error())
		return
	}
	endpoint := r.URL.Query().Get("endpoint")
	if endpoint != "" {
		if _, ok := h.status.Version(endpoint); !ok {
			jsonError(w, http.StatusNotFound, errNoEndpoint.Error())
			return
		}
	}
	watcher, err := h.watch(endpoint, since)
	if err != nil {
		jsonError(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer h.leave(watcher)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.Header().Set("Vary", "Accept-Encoding")
	out := &eventWriter{w: w, gzip: accepts(r.Header, "gzip")}
	if out.gzip {
		w.Header().Set("Content-Encoding", "gzip")
	}
	if r.Method == http.MethodGet {
		h.stream(r.Context(), out, watcher.events)
	}
}

// stream writes events until there are no more or the client is gone, or does not read.
func (h *hub) stream(ctx context.Context, out *eventWriter, events <-chan *event) {
	if out.write(h.start) != nil {
		return
	}
	ping := time.NewTimer(pingInterval)
	defer ping.Stop()
	for {
		next, ok := h.ping, true
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

func (p *packer) update(u *status.Update) (*event, error) {
	data, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	return p.pack(fmt.Appendf(nil, "id: %d\nevent: update\ndata: %s\n\n", u.Version, data)), nil
}

func (p *packer) endpoint(version uint64) *event {
	return p.pack(fmt.Appendf(nil, "id: %d\nevent: endpoint\ndata: {\"version\":%d}\n\n", version, version))
}

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

const (
	// roundInterval is how often watchers get what has changed.
	roundInterval = 2 * time.Second
	// maxWatchers bounds the open streams.
	maxWatchers = 256
	// maxPending is how many events wait for a watcher; one that is further behind is dropped.
	maxPending = 8
)

// hub sends changes to all watchers. One goroutine, which runs only while there is
// a watcher, reads the changes and encodes them once for all.
type hub struct {
	status Status
	logger *slog.Logger
	start  *event         // of a stream
	ping   *event         // without news
	rounds sync.WaitGroup // running goroutines

	mu       sync.Mutex
	closed   bool
	watchers map[*watcher]struct{}
	stop     chan struct{} // ends the rounds; nil while nobody watches
	position uint64        // the version that watchers have
	packer   *packer       // nil while nobody watches
	// missed is the event for watchers that come with an older version, which is since. Many come with the same one when
	// the connections broke all at once. nil is not made since the last round.
	missed *event
	since  uint64
}

type watcher struct {
	endpoint string // "" watches all of them
	dropped  bool
	events   chan *event // closed when the watcher is dropped
}

func newHub(s Status, logger *slog.Logger) *hub {
	p := newPacker()
	start := p.pack([]byte(streamStart))
	start.packed = append([]byte(gzipHeader), start.packed...)
	return &hub{status: s, logger: logger, start: start, ping: p.pack([]byte(pingText)), watchers: make(map[*watcher]struct{})}
}

// watch adds a watcher that knows all up to a version. It has to leave.
func (h *hub) watch(endpoint string, since uint64) (*watcher, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errors.New("the exporter is shutting down")
	}
	if len(h.watchers) >= maxWatchers {
		return nil, errors.New("too many event streams are open")
	}
	w := &watcher{endpoint: endpoint, events: make(chan *event, maxPending)}
	if h.stop == nil {
		stop := make(chan struct{})
		h.position, h.stop, h.packer = since, stop, newPacker()
		h.rounds.Go(func() { h.run(stop) })
	}
	if since != h.position {
		missed, err := h.catchUp(endpoint, since)
		if err != nil {
			return nil, err
		}
		w.events <- missed
	}
	h.watchers[w] = struct{}{}
	return w, nil
}

// catchUp returns the event that brings a watcher to where the others are, or
// further: rows that come again with a later round do no harm.
func (h *hub) catchUp(endpoint string, since uint64) (*event, error) {
	if endpoint != "" { // it reads the endpoint's page again, which costs less than to find out
		return h.packer.endpoint(h.position), nil
	}
	if h.missed == nil || h.since != since {
		event, err := h.packer.update(h.status.Changes(since))
		if err != nil {
			return nil, err
		}
		h.missed, h.since = event, since
	}
	return h.missed, nil
}

func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
	if len(h.watchers) == 0 {
		h.stopRounds()
	}
}

func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	for w := range h.watchers {
		w.drop()
	}
	h.stopRounds()
	h.mu.Unlock()
	h.rounds.Wait()
}

func (h *hub) stopRounds() {
	if h.stop != nil {
		close(h.stop)
		h.stop, h.missed, h.packer = nil, nil, nil
	}
}

func (h *hub) run(stop <-chan struct{}) {
	ticker := time.NewTicker(roundInterval)
	defer ticker.Stop()
	for {
		h.round()
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
	}
}

func (h *hub) round() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop == nil {
		return
	}
	update := h.status.Changes(h.position)
	if update.Version == h.position {
		return
	}
	h.position, h.missed = update.Version, nil
	all := sync.OnceValues(func() (*event, error) { return h.packer.update(update) })
	one, changed := h.packer.endpoint(update.Version), changes(update)
	for w := range h.watchers {
		if w.endpoint != "" {
			if update.Reset || changed[w.endpoint] {
				w.send(one)
			}
			continue
		}
		news, err := all()
		if err != nil { // a page that misses an event would be wrong, so it has to connect again
			h.logger.Error("encoding the changes for the status page failed", "err", err)
			w.drop()
			continue
		}
		w.send(news)
	}
}

func changes(u *status.Update) map[string]bool {
	names := make(map[string]bool, len(u.Endpoints)+len(u.Removed))
	for _, row := range u.Endpoints {
		names[row.Name] = true
	}
	for _, name := range u.Removed {
		names[name] = true
	}
	return names
}

// send queues an event, which must not be changed any more.
func (w *watcher) send(e *event) {
	if w.dropped {
		return
	}
	select {
	case w.events <- e:
	default:
		w.drop()
	}
}

func (w *watcher) drop() {
	if !w.dropped {
		w.dropped = true
		close(w.events)
	}
}
